/**
 * Reads the calls of a reactor file. Each chunk of the file contains the function, target and
 * arguments of one call.
 */

import { parseArgument } from '#master';
import {
  findInterpretedText,
  isFunctionName,
  isKeywordText,
  isNewMinionId,
  pythonStr,
  type WireValue,
} from '#minion-protocol';
import type { PlainData } from '#template';
import type { EventText } from '../render/event-text.ts';
import { isList, isPillarMap, type PillarMap } from '../render/pillar-data.ts';
import { toWire } from '../render/pillar-wire.ts';
import { positionNames, roleOf } from './argument-roles.ts';
import type { PlannedCall, PlanObstacle, TargetedCall } from './reaction-planner.ts';
import type { Chunk } from './reactor-chunks.ts';

/**
 * Function that returns whether a runner or wheel function accepts a keyword argument of this name.
 * For the empty name, it returns whether the function accepts all names.
 */
export type Takes = (kind: 'runner' | 'wheel', fun: string, name: string) => boolean;

/** Error for a reactor file with a call that must not be made. */
export class CallRefused extends Error {
  readonly reason: PlanObstacle;

  constructor(reason: PlanObstacle, problem: string) {
    super(problem);
    this.name = new.target.name;
    this.reason = reason;
  }
}

/**
 * Arguments of a call in a reactor file that Salt itself uses. They are not passed to the called
 * function.
 */
const internal: ReadonlySet<PlainData> = new Set([
  ...['__id__', '__sls__', 'arg', 'args', 'fun', 'key', 'kwarg', 'name', 'name_order', 'order'],
  'state',
]);

/**
 * Keys in a chunk of a reactor file that are not names of arguments: the function, the state, and
 * the collections of arguments.
 */
const besides: ReadonlySet<PlainData> = new Set(['fun', 'state', 'arg', 'args', 'kwarg']);
/** Matches the target types in which one text can match several minions. */
const expressionKind = /^(?:compound|grain|ipcidr|node|pcre|pillar|range)/i;

type Arguments = Pick<PlannedCall, 'arg' | 'kwarg'>;

/**
 * Reads the call that a chunk of a reactor file describes.
 * @throws CallRefused
 */
export function callOf(chunk: Chunk, text: EventText, takes: Takes): PlannedCall {
  const state = chunk.get('state');
  const fun = functionOf(chunk, text);
  if (state === 'local' || state === 'cmd') {
    const target = targetOf(chunk, text);
    return { kind: 'run', fun, target, ...argumentsOf(chunk, text, () => new Map()) };
  }
  if (state === 'runner' || state === 'wheel') {
    const named = (): PillarMap => {
      // Salt would pass `arg` to the function if it is the only argument.
      if (chunk.has('arg'))
        throw new CallRefused('form', '`arg` is only allowed together with `kwarg`');
      return keywordsAmong(chunk, (name) => takes(state, fun, name));
    };
    refusePatterns(state, fun, chunk, text);
    return { kind: state, fun, ...argumentsOf(chunk, text, named) };
  }
  if (state === 'caller') {
    throw new CallRefused(
      'caller',
      'caller is not supported: the master has no execution modules; use local',
    );
  }
  throw new CallRefused('form', 'the state must be local, runner or wheel');
}

function functionOf(chunk: Chunk, text: EventText): string {
  const fun = chunk.get('fun');
  if (typeof fun === 'string' && text.isIn(fun)) {
    throw new CallRefused('pattern', 'the function name must not contain text of the event');
  }
  if (typeof fun !== 'string' || !isFunctionName(fun)) {
    throw new CallRefused('form', 'the function must have the form module.function');
  }
  return fun;
}

/**
 * Reads the target. Event text is allowed only as an id or as part of an id. In a target
 * expression, it could match other minions.
 */
function targetOf(chunk: Chunk, text: EventText): TargetedCall['target'] {
  const [tgt, type] = [chunk.get('tgt'), chunk.get('tgt_type') ?? 'glob'];
  const tgtType = typeof type === 'string' && !text.isIn(type) ? type : undefined;
  if (tgt === undefined || tgtType === undefined) {
    throw new CallRefused('form', '`tgt` is missing, or `tgt_type` is not valid text');
  }
  if (isList(tgt)) return { tgt: tgt.map((id) => text.restore(plainText(id))), tgtType: 'list' };
  const whole = plainText(tgt);
  if (tgtType === 'list') {
    return {
      tgt: text
        .restore(whole)
        .split(',')
        .map((id) => id.trim()),
      tgtType,
    };
  }
  if (text.isIn(whole)) {
    const id = text.restore(whole);
    if (tgtType === 'glob' && isLiteralId(id)) return { tgt: id, tgtType };
    throw new CallRefused('pattern', 'the target contains text of the event; use tgt_type: list');
  }
  return { tgt: whole, tgtType: tgtType.startsWith('node') ? 'nodegroup' : tgtType.toLowerCase() };
}

/** Whether a glob matches only the minion with this id. */
function isLiteralId(id: string): boolean {
  return isNewMinionId(id);
}

/**
 * Rejects a call that uses text of the event as a target, a pattern or a function name. Wheel
 * functions have many arguments that are patterns, for example of key names. These arguments are
 * checked, too.
 */
function refusePatterns(
  kind: 'runner' | 'wheel',
  fun: string,
  chunk: Chunk,
  text: EventText,
): void {
  const beside = [...chunk].filter(([name]) => !besides.has(name));
  const args = chunk.get('args');
  const arg = chunk.get('arg') ?? [];
  const given = isList(arg) ? arg : [arg];
  const positions = given.filter((it) => typeof it !== 'string' || !keyword.test(it));
  const named = [
    ...beside,
    ...(args === undefined ? [] : newForm(args)),
    ...entriesOf(chunk.get('kwarg')),
    ...keywordsIn(given),
  ];
  if (isRiskyCall({ kind, fun, positions, named }, text)) {
    throw new CallRefused(
      'pattern',
      'text of the event must not be used as a target, pattern or function name',
    );
  }
}

/** Name and value of one argument in a reactor file. */
type Entry = readonly [PlainData, PlainData];

/** Arguments of a runner or wheel function as the file contains them. */
interface GivenCall {
  readonly kind: 'runner' | 'wheel';
  readonly fun: string;
  readonly positions: readonly PlainData[];
  readonly named: readonly Entry[];
}

/** Whether a call contains event text in a target, a pattern or a function name. */
function isRiskyCall({ kind, fun, positions, named }: GivenCall, text: EventText): boolean {
  const isPattern = kind === 'wheel';
  const names = positionNames(fun);
  const placed = positions
    .slice(0, names.length)
    .map((value, place): Entry => [names[place] ?? '', value]);
  // The table does not name these positions, so any of them may be a pattern or a target type.
  const rest = positions.slice(names.length);
  const isExpression = rest.some((it) => typeof it === 'string' && expressionKind.test(it));
  return (
    isRiskyMap([...named, ...placed], { fun, isPattern }, text) ||
    isRisky(rest, true, text) ||
    (isExpression && positions.some((it) => hasEventText(it, text)))
  );
}

function isRisky(data: PlainData, isPattern: boolean, text: EventText): boolean {
  if (typeof data === 'string')
    return isPattern && /[*?[,]/.test(text.restore(data)) && text.isIn(data);
  if (isList(data)) return data.some((item) => isRisky(item, isPattern, text));
  return isPillarMap(data) && isRiskyMap([...data], { fun: '', isPattern }, text);
}

function isRiskyMap(
  entries: readonly Entry[],
  { fun, isPattern }: { readonly fun: string; readonly isPattern: boolean },
  text: EventText,
): boolean {
  const judged = entries.map(([key, value]) => {
    const name = typeof key === 'string' ? text.restore(key) : '';
    return { name, role: roleOf(fun, name), value };
  });
  const isExpression = judged.some(
    ({ role, value }) => role === 'kind' && value !== 'glob' && value !== 'list',
  );
  const queued = judged.find(({ name }) => name === 'fun')?.value;
  return judged.some(({ role, value }) => {
    if (role === 'plain' || role === 'kind') return hasEventText(value, text);
    if (role === 'target')
      return isExpression ? hasEventText(value, text) : isUnsafeTarget(value, text);
    if (role === 'calls') return isRiskyItem(value, text);
    if (role === 'positions') return isRiskyQueued(queued, { args: value }, text);
    if (role === 'keywords') return isRiskyQueued(queued, { kwargs: value }, text);
    return isRisky(value, isPattern || role === 'literal', text);
  });
}

/**
 * Whether the `items` of a call of `queue.insert` contain risky event text. The queue may later run
 * such an item as a runner call.
 */
function isRiskyItem(data: PlainData, text: EventText): boolean {
  if (isList(data)) return data.some((item) => isRiskyItem(item, text));
  if (!isPillarMap(data)) return false;
  const entries = [...data].map(([key, value]): Entry => [text.restoreAll(key), value]);
  const { fun, args, kwargs } = Object.fromEntries(entries);
  return isRisky(data, false, text) || isRiskyQueued(fun, { args, kwargs }, text);
}

/**
 * Whether a runner call that is added to a queue contains event text in a target, pattern or
 * function name.
 */
function isRiskyQueued(
  fun: PlainData | undefined,
  { args = [], kwargs }: { readonly args?: PlainData; readonly kwargs?: PlainData },
  text: EventText,
): boolean {
  if (typeof fun !== 'string') return false;
  // The queue splits a text at its commas.
  if (typeof args === 'string' && text.isIn(args)) return true;
  const positions = typeof args === 'string' ? args.split(',') : isList(args) ? args : [args];
  return isRiskyCall({ kind: 'runner', fun, positions, named: entriesOf(kwargs) }, text);
}

function entriesOf(data: PlainData | undefined): readonly Entry[] {
  return isPillarMap(data) ? [...data] : [];
}

/** Returns the positional texts of the form `name=value` as keyword arguments. */
function keywordsIn(positions: readonly PlainData[]): PillarMap {
  const found = positions.flatMap((it) => {
    const [, name, value] = typeof it === 'string' ? (keyword.exec(it) ?? []) : [];
    return name === undefined || value === undefined ? [] : [[name, value] as const];
  });
  return new Map<PlainData, PlainData>(found);
}

function hasEventText(data: PlainData, text: EventText): boolean {
  return textsOf(data).some((it) => text.isIn(it));
}

/** Whether text of the event in a target could make the target match more than one minion. */
function isUnsafeTarget(data: PlainData, text: EventText): boolean {
  return textsOf(data).some((it) => text.isIn(it) && !isLiteralId(text.restore(it)));
}

/** Returns all texts in a value, including the keys of maps. */
function textsOf(data: PlainData): string[] {
  if (typeof data === 'string') return [data];
  if (isList(data)) return data.flatMap(textsOf);
  if (!isPillarMap(data)) return [];
  return [...data].flatMap(([key, value]) => [...textsOf(key), ...textsOf(value)]);
}

/**
 * Reads the arguments of a call in a reactor file.
 * @param named - reads the keyword arguments of the old form, in which they stand next to `fun`
 */
function argumentsOf(chunk: Chunk, text: EventText, named: () => PillarMap): Arguments {
  const args = chunk.get('args');
  if (args !== undefined) return { arg: [], kwarg: keywords(newForm(args), text) };
  const { arg, kwarg: own } = positional(chunk.get('arg') ?? [], text);
  const given = chunk.get('kwarg') ?? named();
  if (!isPillarMap(given)) throw new CallRefused('form', '`kwarg` must be a map');
  return { arg, kwarg: { ...own, ...keywords(given, text) } };
}

/** Reads keyword arguments from a map, or from a list of maps with one key each. */
function newForm(args: PlainData): PillarMap {
  if (isPillarMap(args)) return args;
  const items = isList(args) ? args : [];
  const pairs = items.map((item): readonly [PlainData, PlainData] | undefined => {
    if (!isPillarMap(item)) return isList(item) || item === null ? undefined : [item, null];
    return item.size === 1 ? [...item][0] : undefined;
  });
  const complete = pairs.filter((pair) => pair !== undefined);
  if (complete.length === 0 || complete.length < pairs.length) {
    throw new CallRefused('form', '`args` must be a map, or a list of maps with one key each');
  }
  return new Map(complete);
}

/**
 * Reads positional arguments in the same way as minions: `name=value` is a keyword argument [WIRE
 * 11.5]. Event text never becomes a keyword argument.
 */
function positional(data: PlainData, text: EventText): Arguments {
  const arg: WireValue[] = [];
  const kwarg: Record<string, WireValue> = {};
  for (const item of isList(data) ? data : [data]) {
    const [, name, rest] = typeof item === 'string' ? (keyword.exec(item) ?? []) : [];
    const value = settled(item, text);
    if (name !== undefined && rest !== undefined) {
      kwarg[name] = text.isIn(rest) ? settled(rest, text) : parseArgument(rest);
    } else if (typeof value === 'string' && isKeywordText(value)) {
      throw new CallRefused(
        'positional-text',
        'text of the event must not become a keyword argument',
      );
    } else {
      arg.push(value);
    }
  }
  return { arg, kwarg };
}

const keyword = /^([\p{L}_][\p{L}\p{N}_.-]*)=(?!=)(.*)$/su;

/**
 * Returns the keyword arguments that stand beside `fun`, as in the old form of reactor files. In
 * Salt, each of them is passed to the function, and an unknown one makes the call fail.
 */
function keywordsAmong(chunk: Chunk, takes: (name: string) => boolean): PillarMap {
  // A function that accepts any keyword must not receive the chunk's own arguments, such as `tgt`.
  const takesAll = takes('');
  const found = new Map<PlainData, PlainData>();
  for (const [name, value] of chunk) {
    const isTaken = typeof name === 'string' && takes(name);
    if (internal.has(name)) {
      if (isTaken && !takesAll) found.set(name, value);
    } else if (isTaken) {
      found.set(name, value);
    } else {
      throw new CallRefused('form', 'the function does not accept one of the given arguments');
    }
  }
  return found;
}

function keywords(map: PillarMap, text: EventText): Record<string, WireValue> {
  const kwarg: Record<string, WireValue> = {};
  for (const [key, value] of map) {
    const name = plainText(key);
    // Names with two underscores are internal to Salt: `__kwarg__`, `__pub_jid`.
    if (text.isIn(name) || name.startsWith('__')) {
      throw new CallRefused('form', 'the name of a keyword argument is not valid');
    }
    kwarg[name] = settled(value, text);
  }
  return kwarg;
}

/** Converts a value, and replaces the placeholders in it by the texts of the event. */
function settled(data: PlainData, text: EventText): WireValue {
  refuseDashes(data, text);
  for (const it of textsOf(data)) {
    if (text.isIn(it)) refuseInterpreted(text.restore(it));
  }
  return toWire(text.restoreAll(data));
}

/**
 * Rejects a value that begins with event text, if this text begins with a dash. Programs would
 * parse such a value as an option.
 */
function refuseDashes(data: PlainData, text: EventText): void {
  if (typeof data === 'string') {
    const isDash = text.restore(data).startsWith('-') && !data.startsWith('-');
    if (isDash) throw new CallRefused('dash', 'text of the event must not begin with a dash');
  } else if (isList(data)) {
    for (const item of data) refuseDashes(item, text);
  } else if (isPillarMap(data)) {
    for (const [key, value] of data) {
      refuseReserved(key, text);
      refuseDashes(value, text);
    }
  }
}

/**
 * Rejects a map key from the event that begins with two underscores. With the key `__kwarg__`, a
 * map would become keyword arguments.
 */
function refuseReserved(key: PlainData, text: EventText): void {
  if (typeof key === 'string' && text.isIn(key) && text.restore(key).startsWith('__')) {
    throw new CallRefused('positional-text', 'a key of the event begins with two underscores');
  }
}

/** Rejects event text that a minion would interpret, for example as a call or a look-up. */
function refuseInterpreted(eventText: string): void {
  const interpreted = findInterpretedText(eventText);
  if (interpreted !== undefined) {
    throw new CallRefused('interpreted', `text of the event ${interpreted.expected}`);
  }
}

function plainText(data: PlainData): string {
  return typeof data === 'string' ? data : pythonStr(toWire(data));
}
