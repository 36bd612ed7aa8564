/** Drawing of the values that roles read from each other, in SVG. */

import { escapeMarkup } from '#runtime';
import type { ValueFlow } from './compile-template.ts';

// Sizes in pixels.
const characterWidth = 8;
const rowHeight = 22;
const padding = 10;
const columnGap = 120;
const boxGap = 30;

/**
 * Box of a role. It has a row for each value that the role reads, and for each value that other
 * roles read from this role.
 */
interface Box {
  readonly role: string;
  readonly reads: readonly string[];
  readonly writes: readonly string[];
  readonly width: number;
  readonly height: number;
}

interface PlacedBox extends Box {
  readonly x: number;
  readonly y: number;
}

/**
 * Returns an SVG image. Roles without dependencies are on the left. Lines of values that guests
 * write are solid. Lines of values that Heat determines are dashed.
 */
export function drawFlowsAsSvg(roles: readonly string[], flows: readonly ValueFlow[]): string {
  const boxes = placeBoxes(roles, flows);
  const width = Math.max(0, ...boxes.map((box) => box.x + box.width)) + padding;
  const lowest = Math.max(0, ...boxes.map((box) => box.y + box.height));
  // Leave space for the curves that are drawn below the boxes.
  const height = Math.ceil(lowest * 1.1) + boxGap;
  const byRole = new Map(boxes.map((box) => [box.role, box]));
  const lines = flows.flatMap((flow) => {
    const [from, to] = [byRole.get(flow.from), byRole.get(flow.to)];
    return from === undefined || to === undefined ? [] : drawFlow(flow, from, to, boxes);
  });
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="monospace" font-size="13">`,
    '<title>Values that the machines of a stack write for each other</title>',
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>',
    '<rect width="100%" height="100%" fill="white"/>',
    ...lines,
    ...boxes.flatMap(drawBox),
    '</svg>',
  ].join('\n')}\n`;
}

function placeBoxes(roles: readonly string[], flows: readonly ValueFlow[]): readonly PlacedBox[] {
  const columns: Box[][] = [];
  const columnOf = columnsOf(roles, flows);
  for (const role of roles) {
    const column = columnOf.get(role) ?? 0;
    const boxes = columns[column] ?? [];
    columns[column] = boxes;
    boxes.push(boxOf(role, flows));
  }
  let x = padding;
  return columns.flatMap((boxes) => {
    let y = padding;
    const placed = boxes.map((box) => {
      const here = { ...box, x, y };
      y += box.height + boxGap;
      return here;
    });
    x += Math.max(...boxes.map((box) => box.width)) + columnGap;
    return placed;
  });
}

/**
 * Returns the column of each role: the length of its longest chain of dependencies. Roles that
 * depend on each other keep the order in which they occur.
 */
function columnsOf(
  roles: readonly string[],
  flows: readonly ValueFlow[],
): ReadonlyMap<string, number> {
  const readers = new Map<string, Set<string>>(roles.map((role) => [role, new Set()]));
  const waits = new Map(roles.map((role) => [role, 0]));
  for (const { from, to } of flows) {
    const own = readers.get(from);
    if (own === undefined || own.has(to) || from === to || !readers.has(to)) continue;
    own.add(to);
    waits.set(to, (waits.get(to) ?? 0) + 1);
  }
  const columns = new Map<string, number>();
  const left = new Set(roles);
  while (left.size > 0) {
    const [first = ''] = left;
    const next = [...left].find((role) => waits.get(role) === 0) ?? first;
    left.delete(next);
    const column = columns.get(next) ?? 0;
    columns.set(next, column);
    for (const reader of readers.get(next) ?? []) {
      waits.set(reader, (waits.get(reader) ?? 0) - 1);
      if (left.has(reader)) columns.set(reader, Math.max(columns.get(reader) ?? 0, column + 1));
    }
  }
  // Remove empty columns.
  const used = [...new Set(columns.values())].sort((a, b) => a - b);
  return new Map([...columns].map(([role, column]) => [role, used.indexOf(column)]));
}

function boxOf(role: string, flows: readonly ValueFlow[]): Box {
  const reads = [...new Set(flows.filter(({ to }) => to === role).map(labelOf))];
  const writes = [...new Set(flows.filter(({ from }) => from === role).map(labelOf))];
  const longest = Math.max(role.length, ...[...reads, ...writes].map(({ length }) => length));
  return {
    role,
    reads,
    writes,
    width: longest * characterWidth + 2 * padding,
    height: (1 + reads.length + writes.length) * rowHeight + padding,
  };
}

function labelOf({ key, secret }: ValueFlow): string {
  return `${key}${secret ? ' (secret)' : ''}`;
}

function drawFlow(
  flow: ValueFlow,
  from: PlacedBox,
  to: PlacedBox,
  boxes: readonly PlacedBox[],
): string {
  const label = labelOf(flow);
  const row = from.reads.length + from.writes.indexOf(label);
  const start = { x: from.x + from.width, y: middleOf(from, row) };
  const end = { x: to.x, y: middleOf(to, to.reads.indexOf(label)) };
  const bend = Math.max(columnGap / 2, Math.abs(end.x - start.x) / 2);
  // Draw the curve below the boxes in between. A Bézier curve reaches three quarters of the way to
  // its control points.
  const between = boxes.filter(({ x, width }) => x > start.x && x + width < end.x);
  const under = Math.max(0, ...between.map(({ y, height }) => y + height));
  const [y1, y2] = [start.y, end.y].map((y) =>
    under > y ? y + ((under + padding - y) * 4) / 3 : y,
  );
  const dashes = flow.by === 'heat' ? ' stroke-dasharray="5 4"' : '';
  const path = `M${start.x} ${start.y}C${start.x + bend} ${y1} ${end.x - bend} ${y2} ${end.x} ${end.y}`;
  return `<path d="${path}" fill="none" stroke="black"${dashes} marker-end="url(#arrow)"><title>${escapeXml(label)}</title></path>`;
}

/** Returns the y coordinate of the middle of a row. The rows are below the name of the role. */
function middleOf(box: PlacedBox, row: number): number {
  return box.y + (row + 1.5) * rowHeight;
}

function drawBox(box: PlacedBox): readonly string[] {
  const { role, reads, writes, x, y, width, height } = box;
  const at = (row: number): number => middleOf(box, row) + 4;
  const right = x + width - padding;
  return [
    `<rect x="${x}" y="${y}" width="${width}" height="${height}" rx="4" fill="white" stroke="black"/>`,
    `<text x="${x + width / 2}" y="${at(-1)}" text-anchor="middle" font-weight="bold">${escapeXml(role)}</text>`,
    ...reads.map((it, row) => `<text x="${x + padding}" y="${at(row)}">${escapeXml(it)}</text>`),
    ...writes.map(
      (it, row) =>
        `<text x="${right}" y="${at(reads.length + row)}" text-anchor="end">${escapeXml(it)}</text>`,
    ),
  ];
}

/** Escapes text from a template. Characters that XML cannot represent are replaced. */
function escapeXml(text: string): string {
  return escapeMarkup(text.replaceAll(/[\p{Cc}\p{Cs}\uFFFE\uFFFF]/gu, '\uFFFD'));
}
