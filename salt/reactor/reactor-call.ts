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
 * Arguments that Salt itself uses in every chunk. They are not keyword arguments of the called
 * function.
 */
const internal: ReadonlySet<PlainData> = new Set([
  ...['__id__', '__sls__', 'arg', 'args', 'fun', 'key', 'kwarg', 'name', 'name_order', 'order'],
  'state',
]);

/** Keyword arguments of runners that contain targets or patterns. */
const patternNames: ReadonlySet<PlainData> = new Set(['tgt', 'target', 'match']);
/** Keyword arguments that select the type of a target. */
const kindNames: ReadonlySet<PlainData> = new Set(['tgt_type', 'expr_form']);
/** Keyword arguments that contain a function name or a compound target. */
const plainNames: ReadonlySet<PlainData> = new Set(['fun', 'function', 'func', 'expr']);
/**
 * For some runners, the index of the positional argument that contains a function name or a
 * compound target.
 */
const plainPlaces: ReadonlyMap<string, number> = new Map([
  ['salt.cmd', 0],
  ['salt.execute', 1],
  ['mine.get', 1],
  ['match.compound_matches', 0],
]);
/** Matches the target types in which one text can match several minions. */
const expressionKind = /^(?:compound|grain|ipcidr|node|pcre|pillar|range)/i;

type Arguments = Pick<PlannedCall, 'arg' | 'kwarg'>;

/**
 * Reads the call that a chunk describes.
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
        throw new CallRefused('form', 'arg is only allowed together with kwarg');
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
    throw new CallRefused('form', 'tgt is missing, or tgt_type is not valid text');
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
 * Rejects event text in patterns. Many arguments of wheel functions are patterns, for example of
 * key names.
 */
function refusePatterns(
  kind: 'runner' | 'wheel',
  fun: string,
  chunk: Chunk,
  text: EventText,
): void {
  const isRisky = (data: PlainData | undefined, isPattern: boolean): boolean => {
    if (typeof data === 'string')
      return isPattern && /[*?[,]/.test(text.restore(data)) && text.isIn(data);
    if (isList(data)) return data.some((item) => isRisky(item, isPattern));
    if (!isPillarMap(data)) return false;
    const isExpression = [...data].some(
      ([name, value]) => kindNames.has(name) && value !== 'glob' && value !== 'list',
    );
    return [...data].some(([name, value]) => {
      if (kindNames.has(name) || plainNames.has(name)) return hasEventText(value, text);
      if (!patternNames.has(name)) return isRisky(value, isPattern);
      return isExpression ? hasEventText(value, text) : isUnsafeTarget(value, text);
    });
  };
  const arg = chunk.get('arg') ?? [];
  const positions = isList(arg) ? arg : [arg];
  const isPlainPlace = hasEventText(positions[plainPlaces.get(fun) ?? -1] ?? null, text);
  const isExpression = positions.some((it) => typeof it === 'string' && expressionKind.test(it));
  if (
    isRisky(chunk, kind === 'wheel') ||
    isRisky(arg, true) ||
    isRisky(keywordsIn(positions), kind === 'wheel') ||
    isPlainPlace ||
    (isExpression && hasEventText(arg, text))
  ) {
    throw new CallRefused(
      'pattern',
      'text of the event must not be used as a target, pattern or function name',
    );
  }
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

/** Whether a target contains event text with which it may match more than one minion. */
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
 * Reads the arguments.
 * @param named - reads the keyword arguments that stand beside `fun`, as in the old form of reactor
 * files
 */
function argumentsOf(chunk: Chunk, text: EventText, named: () => PillarMap): Arguments {
  const args = chunk.get('args');
  if (args !== undefined) return { arg: [], kwarg: keywords(newForm(args), text) };
  const { arg, kwarg: own } = positional(chunk.get('arg') ?? [], text);
  const given = chunk.get('kwarg') ?? named();
  if (!isPillarMap(given)) throw new CallRefused('form', 'kwarg must be a map');
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
    throw new CallRefused('form', 'args must be a map, or a list of maps with one key each');
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
