import { type Document, isMap, isNode, isScalar, LineCounter, parseDocument } from 'yaml';
import { ConfigError } from './errors.ts';
import type { Setting, Settings } from './settings.ts';

/**
 * Reads the text of a configuration file: YAML 1.1 (`yes`, `off`, `0777`), as PyYAML's safe
 * loader does, but a key that stands twice is refused.
 * @param file - its path, for origins
 * @throws ConfigError ERR_CONFIG_SYNTAX
 */
export function parseConfigFile(text: string, file: string): Settings {
  const lines = new LineCounter();
  const document = parseDocument(text, { version: '1.1', uniqueKeys: true, lineCounter: lines });
  const [problem] = [...document.errors, ...document.warnings];
  if (problem !== undefined) {
    // The parser's own message quotes the line, which may hold a secret.
    const line = lines.linePos(problem.pos[0]).line;
    throw syntaxError(file, line, `this is not YAML that can be used (${problem.code})`);
  }
  const content = toJs(document, file);
  if (content === null) return new Map();
  if (!(content instanceof Map)) throw syntaxError(file, 1, 'expected a map of options');
  return toSettings(content, [], (path) => lineOf(document, lines, path), file);
}

function toJs(document: Document, file: string): unknown {
  try {
    return document.toJS({ mapAsMap: true });
  } catch {
    // Aliases that grow without end.
    throw syntaxError(file, 0, 'its aliases cannot be resolved');
  }
}

function toSettings(
  map: ReadonlyMap<unknown, unknown>,
  path: readonly string[],
  lineAt: (path: readonly string[]) => number,
  file: string,
): Settings {
  const settings: Settings = new Map();
  for (const [key, value] of map) {
    const name = String(key);
    const here = [...path, name];
    const origin = { file, line: lineAt(here), key: here.join(':') };
    const inner: Setting['value'] =
      value instanceof Map ? toSettings(value, here, lineAt, file) : value;
    settings.set(name, { value: inner, origin });
  }
  return settings;
}

/** The line of a key; of the nearest one above it, if it came in by an alias. */
function lineOf(document: Document, lines: LineCounter, path: readonly string[]): number {
  let node: unknown = document.contents;
  let line = 1;
  for (const name of path) {
    if (!isMap(node)) return line;
    const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === name);
    if (pair === undefined) return line;
    const start = isNode(pair.key) ? pair.key.range?.[0] : undefined;
    if (start !== undefined) line = lines.linePos(start).line;
    node = pair.value;
  }
  return line;
}

function syntaxError(file: string, line: number, problem: string): ConfigError {
  return new ConfigError('ERR_CONFIG_SYNTAX', { file, line, key: '' }, problem);
}
