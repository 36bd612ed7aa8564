/** Calls of a reactor file: the function, target and arguments of a chunk. */

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

/** Whether a runner or a wheel function takes a keyword. */
export type Takes = (kind: 'runner' | 'wheel', fun: string, name: string) => boolean;

/** The call cannot be made. */
export class CallRefused extends Error {
  readonly reason: PlanObstacle;

  constructor(reason: PlanObstacle, problem: string) {
    super(problem);
    this.name = new.target.name;
    this.reason = reason;
  }
}

/** What every chunk has, or Salt takes for itself: no keyword of a function. */
const internal: ReadonlySet<PlainData> = new Set([
  ...['__id__', '__sls__', 'arg', 'args', 'fun', 'key', 'kwarg', 'name', 'name_order', 'order'],
  'state',
]);

/** Keywords of runners that are targets or patterns. */
const patternNames: ReadonlySet<PlainData> = new Set(['tgt', 'target', 'match']);
/** Keywords that say how a target is read. */
const kindNames: ReadonlySet<PlainData> = new Set(['tgt_type', 'expr_form']);
/** Keywords that name a function, or are a compound target. */
const plainNames: ReadonlySet<PlainData> = new Set(['fun', 'function', 'func', 'expr']);
/** Positional arguments that name a function, or are a compound target, by runner. */
const plainPlaces: ReadonlyMap<string, number> = new Map([
  ['salt.cmd', 0],
  ['salt.execute', 1],
  ['mine.get', 1],
  ['match.compound_matches', 0],
]);
/** Kinds of targets whose text can mean more than one minion. */
const expressionKind = /^(?:compound|grain|ipcidr|node|pcre|pillar|range)/i;

type Arguments = Pick<PlannedCall, 'arg' | 'kwarg'>;

/** @throws CallRefused */
export function callOf(chunk: Chunk, text: EventText, takes: Takes): PlannedCall {
  const state = chunk.get('state');
  const fun = functionOf(chunk, text);
  if (state === 'local' || state === 'cmd') {
    const target = targetOf(chunk, text);
    return { kind: 'run', fun, target, ...argumentsOf(chunk, text, () => new Map()) };
  }
  if (state === 'runner' || state === 'wheel') {
    const named = (): PillarMap => {
      // Salt takes `arg` alone for an argument of the function.
      if (chunk.has('arg')) throw new CallRefused('form', 'expected kwarg beside arg');
      return keywordsAmong(chunk, (name) => takes(state, fun, name));
    };
    refusePatterns(state, fun, chunk, text);
    return { kind: state, fun, ...argumentsOf(chunk, text, named) };
  }
  if (state === 'caller') {
    throw new CallRefused('caller', 'caller runs in the master, which has no modules; use local');
  }
  throw new CallRefused('form', 'expected local, runner or wheel');
}

function functionOf(chunk: Chunk, text: EventText): string {
  const fun = chunk.get('fun');
  if (typeof fun === 'string' && text.isIn(fun)) {
    throw new CallRefused('pattern', 'the function is text of the event');
  }
  if (typeof fun !== 'string' || !isFunctionName(fun)) {
    throw new CallRefused('form', 'expected module.function');
  }
  return fun;
}

/** Text of the event is a whole id or a part of one: in an expression it could mean others. */
function targetOf(chunk: Chunk, text: EventText): TargetedCall['target'] {
  const [tgt, type] = [chunk.get('tgt'), chunk.get('tgt_type') ?? 'glob'];
  const tgtType = typeof type === 'string' && !text.isIn(type) ? type : undefined;
  if (tgt === undefined || tgtType === undefined) {
    throw new CallRefused('form', 'expected tgt, and text as tgt_type');
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
    throw new CallRefused('pattern', 'the target is text of the event; use tgt_type: list');
  }
  return { tgt: whole, tgtType: tgtType.startsWith('node') ? 'nodegroup' : tgtType.toLowerCase() };
}

/** A glob that means the minion of this id alone. */
function isLiteralId(id: string): boolean {
  return isNewMinionId(id);
}

/** What a wheel function is given is often a pattern, for instance of keys. */
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
    throw new CallRefused('pattern', 'text of the event would be a pattern or a function');
  }
}

/** Texts `name=value` among positional arguments, as keywords. */
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

/** Whether text of the event in a target may mean more than one minion. */
function isUnsafeTarget(data: PlainData, text: EventText): boolean {
  return textsOf(data).some((it) => text.isIn(it) && !isLiteralId(text.restore(it)));
}

/** All texts in a value, keys of maps among them. */
function textsOf(data: PlainData): string[] {
  if (typeof data === 'string') return [data];
  if (isList(data)) return data.flatMap(textsOf);
  if (!isPillarMap(data)) return [];
  return [...data].flatMap(([key, value]) => [...textsOf(key), ...textsOf(value)]);
}

/** @param named the keywords that stand beside `fun`, in the old form */
function argumentsOf(chunk: Chunk, text: EventText, named: () => PillarMap): Arguments {
  const args = chunk.get('args');
  if (args !== undefined) return { arg: [], kwarg: keywords(newForm(args), text) };
  const { arg, kwarg: own } = positional(chunk.get('arg') ?? [], text);
  const given = chunk.get('kwarg') ?? named();
  if (!isPillarMap(given)) throw new CallRefused('form', 'kwarg is not a map');
  return { arg, kwarg: { ...own, ...keywords(given, text) } };
}

/** A map, or a list of maps with one name each. */
function newForm(args: PlainData): PillarMap {
  if (isPillarMap(args)) return args;
  const items = isList(args) ? args : [];
  const pairs = items.map((item): readonly [PlainData, PlainData] | undefined => {
    if (!isPillarMap(item)) return isList(item) || item === null ? undefined : [item, null];
    return item.size === 1 ? [...item][0] : undefined;
  });
  const complete = pairs.filter((pair) => pair !== undefined);
  if (complete.length === 0 || complete.length < pairs.length) {
    throw new CallRefused('form', 'args is neither a map nor a list of maps with one name each');
  }
  return new Map(complete);
}

/** As minions read them: `name=value` is a keyword [WIRE 11.5]. Text of the event makes none. */
function positional(data: PlainData, text: EventText): Arguments {
  const arg: WireValue[] = [];
  const kwarg: Record<string, WireValue> = {};
  for (const item of isList(data) ? data : [data]) {
    const [, name, rest] = typeof item === 'string' ? (keyword.exec(item) ?? []) : [];
    const value = settled(item, text);
    if (name !== undefined && rest !== undefined) {
      kwarg[name] = text.isIn(rest) ? settled(rest, text) : parseArgument(rest);
    } else if (typeof value === 'string' && isKeywordText(value)) {
      throw new CallRefused('positional-text', 'text of the event would be a keyword');
    } else {
      arg.push(value);
    }
  }
  return { arg, kwarg };
}

const keyword = /^([\p{L}_][\p{L}\p{N}_.-]*)=(?!=)(.*)$/su;

/**
 * What stands beside `fun` in the old form: for Salt each is an argument of the function, and one
 * that it does not take spoils the call.
 */
function keywordsAmong(chunk: Chunk, takes: (name: string) => boolean): PillarMap {
  // One that takes whatever it is given must not get what is ours.
  const takesAll = takes('');
  const found = new Map<PlainData, PlainData>();
  for (const [name, value] of chunk) {
    const isTaken = typeof name === 'string' && takes(name);
    if (internal.has(name)) {
      if (isTaken && !takesAll) found.set(name, value);
    } else if (isTaken) {
      found.set(name, value);
    } else {
      throw new CallRefused('form', 'the function takes no argument of a name that is given');
    }
  }
  return found;
}

function keywords(map: PillarMap, text: EventText): Record<string, WireValue> {
  const kwarg: Record<string, WireValue> = {};
  for (const [key, value] of map) {
    const name = plainText(key);
    // Names with two underscores are Salt's own: `__kwarg__`, `__pub_jid`.
    if (text.isIn(name) || name.startsWith('__')) {
      throw new CallRefused('form', 'a keyword is no name');
    }
    kwarg[name] = settled(value, text);
  }
  return kwarg;
}

/** A value with the texts of the event in it. */
function settled(data: PlainData, text: EventText): WireValue {
  refuseDashes(data, text);
  for (const it of textsOf(data)) {
    if (text.isIn(it)) refuseInterpreted(text.restore(it));
  }
  return toWire(text.restoreAll(data));
}

/** Programs take text that begins so for an option. */
function refuseDashes(data: PlainData, text: EventText): void {
  if (typeof data === 'string') {
    const isDash = text.restore(data).startsWith('-') && !data.startsWith('-');
    if (isDash) throw new CallRefused('dash', 'text of the event begins with a dash');
  } else if (isList(data)) {
    for (const item of data) refuseDashes(item, text);
  } else if (isPillarMap(data)) {
    for (const [key, value] of data) {
      refuseReserved(key, text);
      refuseDashes(value, text);
    }
  }
}

/** A map with `__kwarg__` would be the keywords of the function. */
function refuseReserved(key: PlainData, text: EventText): void {
  if (typeof key === 'string' && text.isIn(key) && text.restore(key).startsWith('__')) {
    throw new CallRefused('positional-text', 'a key of the event begins with two underscores');
  }
}

/** A minion would call or look up what the event says. */
function refuseInterpreted(eventText: string): void {
  const interpreted = findInterpretedText(eventText);
  if (interpreted !== undefined) {
    throw new CallRefused('interpreted', `text of the event ${interpreted.expected}`);
  }
}

function plainText(data: PlainData): string {
  return typeof data === 'string' ? data : pythonStr(toWire(data));
}
