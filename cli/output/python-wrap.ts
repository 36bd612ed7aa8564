/** Words, each with a hyphen that it may be broken behind, and the blanks between them. */
const chunkForm = / +|[^ ]*?[^\d\W ]{2}-(?=[^\d\W]{2})|[^ ]+/gu;

/**
 * Python's `textwrap.fill`: lines are broken at blanks and behind hyphens; what is longer than a
 * line is cut.
 * @param indent blanks before each line, counted in its width
 */
export function wrapText(text: string, width: number, indent: number): string {
  const room = width - indent;
  const chunks = text.replace(/[\t\n\v\f\r]/g, ' ').match(chunkForm) ?? [];
  const lines: string[] = [];
  let line = '';
  for (const chunk of chunks) {
    if (line.length + chunk.length <= room) {
      line += line === '' && lines.length > 0 ? chunk.trimStart() : chunk;
      continue;
    }
    let rest = chunk.trim();
    if (rest.length > room) {
      // As much as fits goes on the line that is being filled.
      const fitting = Math.max(1, room - line.length);
      line += rest.slice(0, fitting);
      rest = rest.slice(fitting);
    }
    lines.push(line.trimEnd());
    while (rest.length > room) {
      lines.push(rest.slice(0, room));
      rest = rest.slice(room);
    }
    line = rest;
  }
  if (line.trim() !== '') lines.push(line.trimEnd());
  return lines.map((each) => ' '.repeat(indent) + each).join('\n');
}
