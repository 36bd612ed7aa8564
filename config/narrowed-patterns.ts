/**
 * Detection of expressions in `peer`, `peer_run` and `mine_get` that permit less than in Salt. This
 * master matches them against a whole text. Salt matches them against the beginning of a text
 * (`re.match`).
 */

import type { Grant, GrantSyntax } from '#acl';
import { formatNames } from '#runtime';
import { type ConfigWarning, placeOf } from './config-error.ts';
import type { MasterConfig } from './options.ts';
import { compilePermissions, type Permissions } from './permissions.ts';
import { isSettings, type Setting, type Settings } from './settings.ts';

/** Maximum number of expressions that one warning lists. */
const maxNamed = 5;

/**
 * Returns a warning for each entry of `peer`, `peer_run` and `mine_get` that permits less than in
 * Salt.
 */
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
    // Continue after an invalid option, because its grants cannot be read.
    if (!Object.hasOwn(value, id)) return [];
    const grants = compilePermissions({ [id]: value[id] }, mapKey);
    const patterns = grants.flatMap(narrowedPatterns);
    if (patterns.length === 0) return [];
    const message = `${placeOf(origin)}: ${name}: ${describe(patterns)}`;
    return [{ kind: 'narrowed', ...origin, message }];
  });
}

/**
 * Returns a warning for a setting whose value is not a map. With such a value, Salt starts, but
 * permits nothing.
 */
function warnOfFlag(name: string, { origin, value }: Setting): ConfigWarning {
  const found = `${name}: found ${String(value)}, expected a map`;
  const message = `${placeOf(origin)}: ${found}; as in Salt, nothing is permitted`;
  return { kind: 'narrowed', ...origin, message };
}

function describe(patterns: readonly string[]): string {
  const named = patterns.slice(0, maxNamed);
  const wider = named.map((pattern) => widened(pattern)).join(', ');
  return (
    `${formatNames(patterns, maxNamed)} must match a whole id, function or argument here, ` +
    `but only its beginning in Salt: to keep Salt's meaning, write ${wider}; otherwise append $`
  );
}

/**
 * Returns the expressions in a grant that match fewer texts on this master than in Salt. Each
 * expression is returned once.
 */
function narrowedPatterns({ minion, functions }: Grant): string[] {
  const all = functions.flatMap(({ fun, conditions }) => [
    fun,
    ...conditions.flatMap(({ args, kwargs }) => [...args, ...kwargs.values()]),
  ]);
  const sources = [minion, ...all].flatMap((pattern) => (pattern === null ? [] : [pattern.source]));
  return [...new Set(sources)].filter(isNarrowed);
}

/**
 * Returns an expression that matches the same texts on this master as the given one does in Salt.
 */
function widened(pattern: string): string {
  return alternativesOf(pattern).length > 1 ? `(?:${pattern}).*` : `${pattern}.*`;
}

/**
 * Whether an expression may match fewer texts on this master than in Salt. Returns false if all its
 * alternatives end with `.*`, `.+`, `$` or `\Z`. If this is uncertain, returns true.
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

/**
 * Returns the content of the group at the end of an expression, or `undefined` if it does not end
 * with a group.
 */
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

/** Splits an expression into pieces: characters, escapes, bracketed classes, and whole groups. */
function piecesOf(pattern: string): string[] {
  const pieces: string[] = [];
  let open = '';
  let depth = 0;
  for (const [piece] of pattern.matchAll(/\\.|\[\^?\]?(?:\\.|[^\]\\])*\\?\]?|./gs)) {
    if (piece === '(') depth += 1;
    if (piece === ')') depth -= 1;
    open += piece;
    if (depth > 0) continue;
    pieces.push(open);
    open = '';
  }
  return pieces;
}
