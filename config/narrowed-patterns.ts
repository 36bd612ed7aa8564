/**
 * Expressions of `peer`, `peer_run` and `mine_get` that mean less here than in Salt. Salt looks
 * whether they mean the beginning of a text (`re.match`), this master whether they mean all of it.
 */

import type { Grant, GrantSyntax } from '#acl';
import { type ConfigWarning, placeOf } from './config-error.ts';
import type { MasterConfig } from './options.ts';
import { compilePermissions, type Permissions } from './permissions.ts';
import { isSettings, type Setting, type Settings } from './settings.ts';

/** Expressions that one warning names. */
const maxNamed = 5;

/** One warning for each id that something is granted to, at its place. */
export function warnOfNarrowed(
  { peer, peerRun, mineGet }: Pick<MasterConfig, 'peer' | 'peerRun' | 'mineGet'>,
  settings: Settings,
): ConfigWarning[] {
  const warn = (name: string, value: Permissions | null, mapKey: GrantSyntax['mapKey']) =>
    warnOfOption(name, value ?? {}, mapKey, settings.get(name));
  return [
    ...warn('peer', peer, 'target'),
    ...warn('peer_run', peerRun, 'function'),
    ...warn('mine_get', mineGet, 'function'),
  ];
}

function warnOfOption(
  name: string,
  value: Permissions,
  mapKey: GrantSyntax['mapKey'],
  given: Setting | undefined,
): ConfigWarning[] {
  if (typeof given?.value === 'boolean') return [warnOfFlag(name, given)];
  if (!isSettings(given?.value)) return [];
  return [...given.value].flatMap(([id, { origin }]): ConfigWarning[] => {
    // A report goes on behind an option that is refused.
    if (!Object.hasOwn(value, id)) return [];
    const grants = compilePermissions({ [id]: value[id] }, mapKey);
    const patterns = grants.flatMap(narrowedPatterns);
    if (patterns.length === 0) return [];
    const message = `${placeOf(origin)}: ${name}: ${describe(patterns)}`;
    return [{ kind: 'narrowed', ...origin, message }];
  });
}

/** Salt starts with a value that is no map, and permits nothing. */
function warnOfFlag(name: string, { origin, value }: Setting): ConfigWarning {
  const found = `${name}: found ${String(value)}, expected a map`;
  const message = `${placeOf(origin)}: ${found}; as in Salt, nothing is permitted`;
  return { kind: 'narrowed', ...origin, message };
}

function describe(patterns: readonly string[]): string {
  const named = patterns.slice(0, maxNamed);
  const more = patterns.length > maxNamed ? ` and ${patterns.length - maxNamed} more` : '';
  const wider = named.map((pattern) => widened(pattern)).join(', ');
  return (
    `${named.join(', ')}${more} must mean a whole id, function or argument here, ` +
    `in Salt only its beginning: write ${wider} where that was meant, or end it with $`
  );
}

/** The expressions in a grant, each once, after which Salt takes any text and this master none. */
function narrowedPatterns({ minion, functions }: Grant): string[] {
  const all = functions.flatMap(({ fun, conditions }) => [
    fun,
    ...conditions.flatMap(({ args, kwargs }) => [...args, ...kwargs.values()]),
  ]);
  const sources = [minion, ...all].flatMap((pattern) => (pattern === null ? [] : [pattern.source]));
  return [...new Set(sources)].filter(isNarrowed);
}

/** The expression that means here what the given one means in Salt. */
function widened(pattern: string): string {
  return alternativesOf(pattern).length > 1 ? `(?:${pattern}).*` : `${pattern}.*`;
}

/**
 * Whether more than the expression itself may follow what it means. Told by its form: what ends
 * with `.*`, `$` or `\Z` in each alternative is not narrowed. A doubt counts as narrowed.
 */
export function isNarrowed(pattern: string): boolean {
  const alternatives = alternativesOf(pattern);
  return !alternatives.includes('.*') && !alternatives.every(endsOpenOrTight);
}

function endsOpenOrTight(alternative: string): boolean {
  if (/(?<!\\)(?:\\\\)*(?:\.\*|\.\+|\$|\\Z)$/.test(alternative)) return true;
  const group = lastGroupOf(alternative);
  return group !== undefined && !isNarrowed(group);
}

/** What stands in the group that the text ends with; `undefined`: it ends with none. */
function lastGroupOf(text: string): string | undefined {
  const last = piecesOf(text).at(-1) ?? '';
  return /^\((?:\?:|\?P<\w+>)?((?!\?).*)\)$/s.exec(last)?.[1];
}

function alternativesOf(pattern: string): string[] {
  const alternatives = [''];
  for (const piece of piecesOf(pattern)) {
    if (piece === '|') alternatives.push('');
    else alternatives.push((alternatives.pop() ?? '') + piece);
  }
  return alternatives;
}

/** Characters, escapes, classes in brackets, and groups with all that is in them. */
function piecesOf(pattern: string): string[] {
  const pieces: string[] = [];
  let open = '';
  let depth = 0;
  for (const [piece] of pattern.matchAll(/\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|./gs)) {
    if (piece === '(') depth += 1;
    if (piece === ')') depth -= 1;
    open += piece;
    if (depth > 0) continue;
    pieces.push(open);
    open = '';
  }
  return pieces;
}
