"""Stands for a library that keeps buffers on a device until the process ends."""

import runtime


def nearest(points):
    runtime.buffers.append(bytearray(1 << 10))

    def far(a, b):
        return (points[a].x - points[b].x) ** 2 + (points[a].y - points[b].y) ** 2

    return {
        name: min((other for other in points if other != name), key=lambda other: far(name, other))
        for name in points
    }
