import { type PlainData, TemplateError } from '../../template/index.ts';

/**
 * Reads JSON as data.
 * @throws TemplateError ERR_YAML, the code of a text that holds no data
 */
export function parseJson(text: string, name: string): PlainData {
  try {
    const parsed: unknown = JSON.parse(text);
    return toData(parsed);
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw new TemplateError('ERR_YAML', {
      place: { file: name, line: lineOf(cause, text) },
      kind: 'JSONDecodeError',
      detail: 'this is not JSON',
      cause,
    });
  }
}

/** Of keys that are there twice the last one counts, as in Python. */
function toData(parsed: unknown): PlainData {
  if (typeof parsed === 'string' || typeof parsed === 'number' || typeof parsed === 'boolean') {
    return parsed;
  }
  if (Array.isArray(parsed)) return parsed.map(toData);
  if (typeof parsed !== 'object' || parsed === null) return null;
  return new Map(Object.entries(parsed).map(([key, value]) => [key, toData(value)]));
}

/** The engine tells the position in its message, and nowhere else. */
function lineOf({ message }: SyntaxError, text: string): number {
  const [, position] = /at position (\d+)/.exec(message) ?? [];
  return text.slice(0, Number(position ?? text.length)).split('\n').length;
}
