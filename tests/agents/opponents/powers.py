"""Diplomacy opponents named in tests."""

views = []


def opening(view):
    views.append(view)
    return ["A BER - KIE", "A MUN - RUH", "F KIE - DEN"] if view.phase == "S1901M" else []


class Holder:
    """Give no orders: units hold, dislodged ones disband, nothing is built."""

    def act(self, view):
        views.append(view)
        return []


def impossible(view):
    return ["A BER - PAR"]


def one_text(view):
    return "A BER - KIE"
