/**
 * Salt's reactor files: found, rendered and compiled to calls [salt/utils/reactor.py ReactWrap].
 */

import { randomBytes } from 'node:crypto';
import { expandGlob } from '#config';
import {
  type FileServerBackend,
  MasterError,
  noFiles,
  parseArgument,
  type ReactionEvent,
  requestedFile,
} from '#master';
import {
  formatEventStamp,
  isFunctionName,
  isKeywordText,
  pythonStr,
  type WireValue,
} from '#minion-protocol';
import { type PlainData, TemplateError, type TemplateLimits } from '#template';
import { DiskFiles, HiddenDirectories } from '../file-trees/disk-files.ts';
import { type FileServer, servedFiles } from '../file-trees/file-server.ts';
import { orderChunks } from '../render/chunk-order.ts';
import { EventText } from '../render/event-text.ts';
import {
  isEmpty,
  isList,
  isPillarMap,
  type PillarMap,
  type SourceFile,
  textOf,
  toWire,
} from '../render/pillar-data.ts';
import { PillarSources, pipeOf } from '../render/pillar-sources.ts';
import type { Rendered } from '../render/render-task.ts';
import type { Imports, Renderer } from '../render/renderer.ts';
import type {
  Plan,
  PlannedCall,
  Planner,
  PlanObstacle,
  Refusal,
  TargetedCall,
} from './reaction-planner.ts';

/** Whether a runner or a wheel function takes a keyword. */
export type Takes = (kind: 'runner' | 'wheel', fun: string, name: string) => boolean;

/** The call cannot be made. */
class CallRefused extends Error {
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

type Arguments = Pick<PlannedCall, 'arg' | 'kwarg'>;

/** @throws CallRefused */
function callOf(chunk: Chunk, text: EventText, takes: Takes): PlannedCall {
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
    refusePatterns(state, chunk, text);
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

/** Text of the event is a whole id or nothing: a target with more in it would be an expression. */
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
    throw new CallRefused('pattern', 'the target is text of the event; use tgt_type: list');
  }
  return { tgt: whole, tgtType: tgtType.startsWith('node') ? 'nodegroup' : tgtType.toLowerCase() };
}

/** What a wheel function is given is often a pattern, for instance of keys. */
function refusePatterns(kind: 'runner' | 'wheel', chunk: Chunk, text: EventText): void {
  const isRisky = (data: PlainData | undefined, isPattern: boolean): boolean => {
    if (typeof data === 'string')
      return isPattern && /[*?[,]/.test(text.restore(data)) && text.isIn(data);
    if (isList(data)) return data.some((item) => isRisky(item, isPattern));
    if (!isPillarMap(data)) return false;
    return [...data].some(([name, value]) => isRisky(value, isPattern || patternNames.has(name)));
  };
  if (isRisky(chunk, kind === 'wheel') || isRisky(chunk.get('arg'), true)) {
    throw new CallRefused('pattern', 'text of the event would be a pattern');
  }
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
    for (const value of data.values()) refuseDashes(value, text);
  }
}

function plainText(data: PlainData): string {
  return typeof data === 'string' ? data : pythonStr(toWire(data));
}

// Compilation: the chunks of a file in order [salt/state.py Compiler: pad_funcs, verify_high,
// compile_high_data, order_chunks; salt/utils/reactor.py].

/** Everything that is said of one call, by name: `state`, `fun`, `name`, `tgt`, `args` and so on. */
export type Chunk = ReadonlyMap<PlainData, PlainData>;

/** What a file says of one id: for each `state` what is said of it, the name of a function among it. */
type Body = ReadonlyMap<PlainData, PlainData>;

/** The file does not have the form of one for the reactor. */
export class FormError extends Error {
  constructor(problem: string) {
    super(problem);
    this.name = new.target.name;
  }
}

/** Requisites mean nothing here, and are held to their form all the same. */
const requisites: ReadonlySet<PlainData> = new Set(['require', 'watch', 'prereq', 'onchanges']);

/** @throws FormError: then nothing of the file is done */
export function chunksOf(data: PlainData): Chunk[] {
  if (!isPillarMap(data)) throw new FormError('it is not a map of ids');
  const bodies = Array.from(data, ([id, body]) => [id, padded(id, body)] as const);
  const isOwn = ([id]: readonly [PlainData, Body]): boolean => {
    return typeof id === 'string' && id.startsWith('__');
  };
  const high = bodies.filter((entry) => !isOwn(entry));
  for (const [id, body] of high) verify(id, body);
  return orderChunks(
    high.flatMap(([id, body]) => compile(id, body)),
    (chunk) => ({
      order: chunk.get('order'),
      nameOrder: Number(chunk.get('name_order') ?? 0),
      text: ['state', 'name', 'fun'].map((part) => textOf(chunk.get(part) ?? null)).join(''),
    }),
  );
}

/** `local.cmd.run: [args]` as `local: [args, cmd.run]`. */
function padded(id: PlainData, body: PlainData): Body {
  if (typeof body === 'string' && body.includes('.')) {
    const [state, fun] = split(body);
    return new Map([[state, [fun]]]);
  }
  if (!isPillarMap(body)) throw new FormError(`${named(id)} is not a map`);
  const result = new Map(body);
  const seen = new Set<string>();
  const keys = [...body.keys()];
  if (!keys.every((key) => typeof key === 'string')) {
    throw new FormError(`${named(id)} has a key that is not text`);
  }
  for (const key of keys.sort()) {
    const args = body.get(key);
    if (key.startsWith('_') || !isList(args)) continue;
    const [state, fun] = split(key);
    if (fun === '') seen.add(key);
    // As in Salt, the second one of a kind is left as it is, and does nothing.
    if (fun === '' || seen.has(state)) continue;
    result.delete(key);
    result.set(state, [...args, fun]);
    seen.add(state);
  }
  return result;
}

function split(name: string): [state: string, fun: string] {
  const [state = '', ...rest] = name.split('.');
  return [state, rest.join('.')];
}

function verify(id: PlainData, body: Body): void {
  if (typeof id !== 'string') throw new FormError(`${named(id)} is not text; it may need quotes`);
  for (const [state, args] of body) {
    if (String(state).startsWith('__')) continue;
    if (!isList(args)) throw new FormError(`${named(id)}: ${String(state)} is not a list`);
    verifyFunctions(`${named(id)}: ${String(state)}`, String(state), args);
    for (const arg of args) verifyRequisite(named(id), arg);
  }
}

function verifyFunctions(place: string, state: string, args: readonly PlainData[]): void {
  const names = args.filter((arg) => typeof arg === 'string');
  if (names.some((name) => name.trim().includes(' '))) {
    throw new FormError(`${place} has a function with a space; a colon may be missing`);
  }
  const count = names.length + (state.includes('.') ? 1 : 0);
  if (count === 0 && state !== 'require' && state !== 'watch') {
    throw new FormError(`${place} names no function`);
  }
  if (count > 1) throw new FormError(`${place} names more than one function`);
}

function verifyRequisite(place: string, arg: PlainData): void {
  if (!isPillarMap(arg)) return;
  const [[name, value] = [null, null]] = arg;
  if (!requisites.has(name)) return;
  const isForm = isList(value) && arg.size === 1 && value.every(isRequisite);
  if (!isForm) throw new FormError(`${place}: ${String(name)} is not a list of ids`);
}

function isRequisite(item: PlainData): boolean {
  if (typeof item === 'string') return true;
  const [[kind] = ['']] = isPillarMap(item) ? item : [];
  return isPillarMap(item) && typeof kind === 'string' && !kind.includes('.');
}

function compile(id: PlainData, body: Body): Map<PlainData, PlainData>[] {
  return [...body].flatMap(([state, args]) => {
    if (String(state).startsWith('__') || !isList(args)) return [];
    const fun = args.find((arg) => typeof arg === 'string');
    if (fun === undefined) return [];
    const maps = args.filter(isPillarMap);
    const fields = new Map<PlainData, PlainData>([
      ['state', state],
      ['name', id],
      ['__id__', id],
      ...maps.flatMap((map) => [...map].filter(([name]) => name !== 'names')),
    ]);
    const names = maps.map((map) => map.get('names') ?? []).flatMap((it) => (isList(it) ? it : []));
    if (names.length === 0) return [fields.set('fun', fun)];
    return names.map((name, place) => namedChunk(fields, name, place + 1).set('fun', fun));
  });
}

/** One of several that differ in `name`, and in what is said with it. */
function namedChunk(
  fields: ReadonlyMap<PlainData, PlainData>,
  name: PlainData,
  place: number,
): Map<PlainData, PlainData> {
  const chunk = new Map(fields);
  const [[own, more] = [name, []]] = isPillarMap(name) ? name : [];
  const maps = isList(more) ? more.filter(isPillarMap) : [];
  chunk.set('name', own);
  for (const [key, value] of maps.flatMap((map) => [...map])) chunk.set(key, value);
  return chunk.set('name_order', place);
}

function named(id: PlainData): string {
  return `the id ${JSON.stringify(textOf(id).slice(0, 100))}`;
}

// Files: of the file server, and anywhere on disk.

export interface ReactorFilesOptions {
  readonly fileServer: FileServer;
  /** Directories that nothing is read from. */
  readonly hidden: readonly string[];
  readonly trimBlocks: boolean;
  readonly lstripBlocks: boolean;
}

/** The files of the reactor as they are now; each is parsed once as long as it does not change. */
export interface ReactorFiles {
  /**
   * Those that a reference of the option `reactor` means; none: it means nothing.
   * @throws MasterError ERR_PILLAR_FILE
   */
  find(reference: string): Promise<readonly SourceFile[]>;
  /** What a template imports: as in Salt, from the file server. @throws MasterError ERR_PILLAR_FILE */
  imported(place: string): Promise<SourceFile | undefined>;
}

export async function openReactorFiles(options: ReactorFilesOptions): Promise<ReactorFiles> {
  const { trimBlocks, lstripBlocks } = options;
  const hidden = await HiddenDirectories.open(options.hidden);
  const open = (backend: FileServerBackend): PillarSources =>
    new PillarSources({ backend, trimBlocks, lstripBlocks });
  const served = open(servedFiles(options.fileServer));
  const local = open(ofDisk(hidden));
  return {
    find: async (reference) => {
      const found = reference.startsWith('salt://')
        ? [await findServed(served, reference.slice('salt://'.length))]
        : await Promise.all((await expandGlob(reference)).map((it) => local.read(it.slice(1), '')));
      return found.filter((file) => file !== undefined);
    },
    imported: (place) => served.read(place, 'base'),
  };
}

async function findServed(served: PillarSources, place: string): Promise<SourceFile | undefined> {
  const asked = requestedFile(place, 'base');
  return asked === undefined ? undefined : served.read(asked.path, asked.saltenv);
}

function ofDisk(hidden: HiddenDirectories): FileServerBackend {
  const files = new DiskFiles(hidden);
  return {
    name: 'disk',
    envs: () => [],
    find: (place) => files.find('/', place),
    lists: async () => noFiles,
    close: async () => {},
  };
}

// Rendering, with the event as values.

/** What the operator decided. */
interface ReactorRules {
  /** `id`. */
  readonly masterId: string;
  /** `renderer`. */
  readonly renderer: string;
  readonly trimBlocks: boolean;
  readonly lstripBlocks: boolean;
  readonly limits: Partial<TemplateLimits>;
}

/** With what files are rendered. */
interface ReactorRendering {
  readonly rendering: Renderer;
  readonly imported: ReactorFiles['imported'];
}

/** The data of a file, with marks where text of the event is to be, and what they stand for. */
interface ReactionData {
  readonly data: PlainData;
  readonly text: EventText;
}

/** @throws TemplateError; MasterError ERR_RENDERER, ERR_PILLAR_FILE, ERR_RENDER_GIVEN_UP */
async function renderReaction(
  file: SourceFile,
  event: Pick<ReactionEvent, 'tag' | 'body'>,
  rules: ReactorRules,
  by: ReactorRendering,
): Promise<ReactionData> {
  const { isTemplate, format } = pipeOf(file.text, rules.renderer);
  const secret = randomBytes(12).toString('hex');
  const rendered = isTemplate
    ? await render(file, event, { rules, by, secret })
    : { text: file.text, marked: [] };
  const text = new EventText(secret, rendered.marked);
  const [line = ''] = rendered.text.split('\n', 1);
  const source = line.startsWith('#!') ? rendered.text.slice(line.length) : rendered.text;
  if (source.trim() === '') return { data: new Map(), text };
  const task = { kind: 'read', format, text: source, name: file.path } as const;
  const data = await by.rendering.read(task);
  return { data: isEmpty(data) ? new Map() : data, text };
}

interface Material {
  readonly rules: ReactorRules;
  readonly by: ReactorRendering;
  readonly secret: string;
}

/** Grains and options are those of the master: reactions are no minion's. */
function render(
  file: SourceFile,
  { tag, body }: Pick<ReactionEvent, 'tag' | 'body'>,
  { rules, by, secret }: Material,
): Promise<Rendered> {
  const { trimBlocks, lstripBlocks, limits } = rules;
  const grains = { id: rules.masterId };
  return by.rendering.render(
    file,
    {
      kind: 'reaction',
      tag,
      data: body,
      secret,
      grains,
      opts: { ...grains, file_client: 'local' },
      ...{ trimBlocks, lstripBlocks, limits },
    },
    importsOf(by),
  );
}

function importsOf({ imported }: ReactorRendering): Imports {
  const known = new Map<string, SourceFile | undefined>();
  return { known, read: async (path) => known.set(path, await imported(path)) };
}

// The planner for the option `reactor`.

export interface ReactorDeps {
  readonly files: ReactorFiles;
  readonly rules: ReactorRules;
  readonly rendering: Renderer;
  readonly takes: Takes;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** @param reference of a file, or of several by a glob */
export function createReactorPlanner(reference: string, parts: ReactorDeps): Planner {
  return async (event) => {
    if (isOwnDoing(event)) return { calls: [], refused: [] };
    const stamped = { _stamp: formatEventStamp(new Date(parts.now())), ...event.body };
    const plans = await planAll(reference, { ...event, body: stamped }, parts);
    return {
      calls: plans.flatMap(({ calls }) => calls),
      refused: plans.flatMap(({ refused }) => refused),
    };
  };
}

/** As in Salt, what a reaction has run in the master leads to no other. */
function isOwnDoing({ tag, sender, body }: ReactionEvent): boolean {
  if (sender !== undefined || !/^salt\/(?:run|wheel)\//.test(tag)) return false;
  return typeof body.user === 'string' && body.user.startsWith('reaction:');
}

async function planAll(
  reference: string,
  event: ReactionEvent,
  parts: ReactorDeps,
): Promise<readonly Plan[]> {
  try {
    const files = await parts.files.find(reference);
    if (files.length === 0) return [refused({ reason: 'no-file', why: 'there is no such file' })];
    return await Promise.all(files.map((file) => planFile(file, event, parts)));
  } catch (error) {
    if (error instanceof MasterError) return [refused({ reason: 'render', why: error.message })];
    throw error;
  }
}

async function planFile(file: SourceFile, event: ReactionEvent, parts: ReactorDeps): Promise<Plan> {
  const { path } = file;
  const by = { rendering: parts.rendering, imported: parts.files.imported };
  const failures: Refusal[] = [];
  const calls: PlannedCall[] = [];
  try {
    const { data, text } = await renderReaction(file, event, parts.rules, by);
    for (const chunk of chunksOf(data)) {
      try {
        calls.push(callOf(chunk, text, parts.takes));
      } catch (error) {
        if (!(error instanceof CallRefused)) throw error;
        failures.push({ reason: error.reason, why: `${path}: ${error.message}` });
      }
    }
  } catch (error) {
    return refused(whyNot(error, path));
  }
  return { calls, refused: failures };
}

/** @throws what is no fault of the file */
function whyNot(error: unknown, path: string): Refusal {
  if (error instanceof FormError) return { reason: 'form', why: `${path}: ${error.message}` };
  if (error instanceof TemplateError) return { reason: 'render', why: described(error) };
  if (error instanceof MasterError) return { reason: 'render', why: `${path}: ${error.message}` };
  throw error;
}

/** What these say may have words of the event in it. */
const telling: ReadonlySet<string> = new Set([
  'ERR_TEMPLATE_RUNTIME',
  'ERR_TEMPLATE_FUNCTION',
  'ERR_YAML',
]);

function described({ code, message, kind, place }: TemplateError): string {
  return telling.has(code) ? `${kind}; file ${place.file}, line ${place.line}` : message;
}

function refused(refusal: Refusal): Plan {
  return { calls: [], refused: [refusal] };
}
