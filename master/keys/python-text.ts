/**
 * What Python's `str()` makes of a grain, which is what Salt compares with the lines of
 * `autosign_grains_dir`. `undefined` for values that should match nothing: nil, bytes and the like.
 */
export function pythonText(value: unknown): string | undefined {
  return typeof value === 'string' ? value : (scalarText(value) ?? containerText(value));
}

function scalarText(value: unknown): string | undefined {
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'number' || typeof value === 'bigint') return String(value);
  return undefined;
}

function containerText(value: unknown): string | undefined {
  if (Array.isArray(value)) return `[${value.map(representation).join(', ')}]`;
  if (!(value instanceof Map)) return undefined;
  const pairs = [...value].map(([key, item]) => `${representation(key)}: ${representation(item)}`);
  return `{${pairs.join(', ')}}`;
}

/** Python's `repr()`. */
function representation(value: unknown): string {
  if (value === null || value === undefined) return 'None';
  if (typeof value === 'string') return quoted(value);
  return scalarText(value) ?? containerText(value) ?? 'None';
}

function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text
    .replaceAll('\\', '\\\\')
    .replaceAll(quote, `\\${quote}`)
    .replaceAll('\n', '\\n')
    .replaceAll('\r', '\\r')
    .replaceAll('\t', '\\t');
  return `${quote}${escaped}${quote}`;
}
