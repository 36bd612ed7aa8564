/** What `salt` prints as minions answer [salt cli/salt.py, output/__init__.py]. */
import type { WireValue } from '../../minion-protocol/index.ts';
import type { Colors } from './colors.ts';
import { formatJson } from './json.ts';
import { mapEntries } from './map-entries.ts';
import { formatNested } from './nested.ts';
import { formatNoReturn } from './no-return.ts';

/** The outputters that can be asked for. */
export type Outputter = 'nested' | 'json';

/** What one minion said, or that it said nothing. */
export interface MinionReturn {
  readonly minion: string;
  readonly value: WireValue;
  readonly isFailure: boolean;
  /** The outputter that the function asks for. */
  readonly out?: string;
}

/** How returns are shown. */
export interface ReturnsOptions {
  /** What the person asked for; it wins over what a function asks for. */
  readonly outputter?: Outputter | undefined;
  readonly colors: Colors;
}

/** One minion's return, as it is printed when it comes. May be empty. */
export function formatReturn(result: MinionReturn, options: ReturnsOptions): string {
  const { minion, value, isFailure, out } = result;
  const isSilent = options.outputter === undefined && out === 'no_return';
  if (isSilent) return formatNoReturn(minion, String(value), options.colors).trimEnd();
  return formatMap(new Map([[minion, value]]), options.outputter ?? out, isFailure, options.colors);
}

/** All returns at once, as `--static` prints them. */
export function formatReturns(results: readonly MinionReturn[], options: ReturnsOptions): string {
  const map = new Map(results.map(({ minion, value }): [string, WireValue] => [minion, value]));
  const isFailure = results.some((result) => result.isFailure);
  return formatMap(map, options.outputter, isFailure, options.colors);
}

function formatMap(
  map: Map<string, WireValue>,
  outputter: string | undefined,
  isFailure: boolean,
  colors: Colors,
): string {
  const value: WireValue = new Map(map);
  if (outputter === 'json') return formatJson(value, { indent: 4 });
  return formatNested(value, { colors, isFailure }).trimEnd();
}

/** Whether a minion's `retcode` says that it failed: not 0, or a map with one that is not. */
export function isFailureCode(retcode: WireValue): boolean {
  const entries = mapEntries(retcode);
  if (entries !== undefined) return entries.some(([, code]) => isFailureCode(code));
  return retcode !== 0 && retcode !== false && retcode !== null;
}

/** Why there is no return [salt client/__init__.py get_cli_event_returns]. */
export function noResponse(minion: string, jid: string): MinionReturn {
  const value = `Minion did not return. [No response]\n${lookUpLater(jid)}`;
  return { minion, value, isFailure: true, out: 'no_return' };
}

/** What Salt says when its person leaves before the minions are done [salt scripts.py]. */
export function leavingEarly(jid: string): string {
  return `\nExiting gracefully on Ctrl-c\nThis job's jid is: ${jid}\n${lookUpLater(jid)}`;
}

function lookUpLater(jid: string): string {
  return [
    'The minions may not have all finished running and any remaining minions will return upon ' +
      'completion. To look up the return data for this job later, run the following command:',
    '',
    `salt-run jobs.lookup_jid ${jid}`,
  ].join('\n');
}
