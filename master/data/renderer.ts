/** Renders templates and reads data: what is small at once, the rest on a thread of its own. */

import type { Nodegroups, WireMap } from '../../minion-protocol/index.ts';
import { WorkerPool, WorkerPoolError, type WorkerPoolOptions } from '../../runtime/index.ts';
import {
  Float,
  type PlainData,
  parseYaml,
  TemplateError,
  type TemplateErrorCode,
  type TemplateLimits,
} from '../../template/index.ts';
import { MasterError } from '../api/index.ts';
import { GrainReads, type PillarMap } from './compile-pillar.ts';
import {
  parseJson,
  type SourceFile,
  type SourceText,
  type TemplateWhitespace,
} from './pillar-sources.ts';
import { renderTemplate } from './render-template.ts';

// What goes between the main thread and one that renders: plain data, which can be copied.

/** What a thread is to do. */
export type RenderOrder =
  | {
      readonly kind: 'render';
      readonly file: SourceText;
      readonly task: RenderTask;
      readonly known: ReadonlyMap<string, SourceText | undefined>;
    }
  | { readonly kind: 'read'; readonly task: ReadTask };

/** What it answers; `notes` of a rendering. */
export interface RenderAnswer {
  readonly outcome: RenderOutcome;
  readonly notes?: SentNotes;
}

/** What came of it. */
export type RenderOutcome =
  | { readonly kind: 'rendered'; readonly rendered: Rendered }
  | { readonly kind: 'data'; readonly data: PlainData }
  | { readonly kind: 'not-read'; readonly path: string }
  | { readonly kind: 'template-error'; readonly error: SentTemplateError }
  | { readonly kind: 'failed'; readonly error: unknown };

/** {@link Notes} as they are copied. */
interface SentNotes {
  readonly values: ReadonlyMap<string, Uint8Array | null>;
  readonly whole: Uint8Array | undefined;
  readonly isVolatile: boolean;
}

interface SentTemplateError {
  readonly code: TemplateErrorCode;
  readonly file: string;
  readonly line: number;
  readonly kind: string;
  readonly detail: string;
}

export function sendNotes({ grains, isVolatile }: Notes): SentNotes {
  return { values: grains.values, whole: grains.whole, isVolatile };
}

/** Adds what another thread noted. */
export function receiveNotes(notes: Notes, { values, whole, isVolatile }: SentNotes): void {
  addReads(notes.grains, values, whole);
  if (isVolatile) notes.isVolatile = true;
}

function addReads(
  grains: GrainReads,
  values: ReadonlyMap<string, Uint8Array | null>,
  whole: Uint8Array | undefined,
): void {
  for (const [name, value] of values) {
    grains.values.set(name, value === null ? null : Buffer.from(value));
  }
  if (whole !== undefined) grains.whole = Buffer.from(whole);
}

export function sendTemplateError({ code, place, kind, detail }: TemplateError): SentTemplateError {
  return { code, file: place.file, line: place.line, kind, detail };
}

export function receiveTemplateError({
  code,
  file,
  line,
  kind,
  detail,
}: SentTemplateError): TemplateError {
  return new TemplateError(code, { place: { file, line }, kind, detail });
}

/** Data that were copied: a float comes as an object with its value alone. */
export function receiveData(data: PlainData): PlainData {
  if (typeof data !== 'object' || data === null || data instanceof Uint8Array) return data;
  if (isMap(data)) return receiveMap(data);
  return isList(data) ? data.map(receiveData) : new Float(data.value);
}

export function receiveMap(
  map: ReadonlyMap<PlainData, PlainData>,
): ReadonlyMap<PlainData, PlainData> {
  return new Map(Array.from(map, ([key, value]) => [receiveData(key), receiveData(value)]));
}

function isMap(data: PlainData): data is ReadonlyMap<PlainData, PlainData> {
  return data instanceof Map;
}

function isList(data: readonly PlainData[] | Float): data is readonly PlainData[] {
  return Array.isArray(data);
}

/** Reads a text, on whichever thread. @throws TemplateError ERR_YAML, ERR_TEMPLATE_LIMIT */
export function readData({ format, text, name }: ReadTask): PlainData {
  return format === 'json' ? parseJson(text, name) : parseYaml(text, { name });
}

// Work of a rendering, with all that it goes by: it can be done on this thread or on another.

/** A template to be rendered. */
interface TemplateTask extends TemplateWhitespace {
  readonly limits: Partial<TemplateLimits>;
  /** What `grains` is, and what functions look at. */
  readonly grains: WireMap;
  /** What templates see as `opts`. */
  readonly opts: Readonly<Record<string, unknown>>;
}

/** A file of pillar. */
export interface PillarTask extends TemplateTask {
  readonly kind: 'pillar';
  /** Whose pillar. */
  readonly id: string;
  readonly saltenv: string;
  /** Its name, `web.common`; empty for a top file. */
  readonly sls: string;
  /** More variables: `defaults` of an include. */
  readonly defaults: PillarMap;
  /** What templates see as `pillar`. */
  readonly pillar: PillarMap;
  readonly raisesOnMissing: boolean;
  readonly nodegroups: Nodegroups;
  /** When it is rendered, milliseconds since 1970. */
  readonly now: number;
  /** Of an orchestration for somebody who may not do everything. */
  readonly foreign?: UntrustedInput | undefined;
}

/** Words that are values in whatever is rendered, as those of events are. */
export interface UntrustedInput {
  readonly words: WireMap;
  /** Of the marks in the text; see reactor/event-text.ts. */
  readonly secret: string;
}

/** A file for the reactor. */
export interface ReactionTask extends TemplateTask {
  readonly kind: 'reaction';
  readonly tag: string;
  readonly data: WireMap;
  /** Of the marks in the text; see reactor/event-text.ts. */
  readonly secret: string;
}

/** What a template is rendered for. */
export type RenderTask = PillarTask | ReactionTask;

/** A text to be read as data. */
export interface ReadTask {
  readonly kind: 'read';
  readonly format: 'yaml' | 'json';
  readonly text: string;
  /** In errors. */
  readonly name: string;
}

/** A template as text. */
export interface Rendered {
  readonly text: string;
  /** Of a reaction: the texts that its marks stand for. */
  readonly marked: readonly string[];
}

/** What a rendering looked at, besides files; noted also when it fails. */
export interface Notes {
  readonly grains: GrainReads;
  /** It looked at the clock or at chance, or ended by the clock: it may be another one each time. */
  isVolatile: boolean;
}

export function makeNotes(): Notes {
  return { grains: new GrainReads(), isVolatile: false };
}

/** Files that a template includes and imports, those that were read until now. */
export type KnownFiles = ReadonlyMap<string, SourceFile | undefined>;

/** A template asked for a file that was not read yet: it is read, and the template begins again. */
export class NotRead extends Error {
  static {
    NotRead.prototype.name = NotRead.name;
  }

  readonly path: string;

  constructor(path: string) {
    super('a file is to be read first');
    this.path = path;
  }
}

/** Values by key, up to so much of them; those that were put there longest ago go first. */
export class WeightedCache<V> {
  readonly #maxWeight: number;
  readonly #entries = new Map<string, { readonly value: V; readonly weight: number }>();
  #weight = 0;

  constructor(maxWeight: number) {
    this.#maxWeight = maxWeight;
  }

  get(key: string): V | undefined {
    return this.#entries.get(key)?.value;
  }

  /** What weighs too much by itself is not kept. */
  set(key: string, value: V, weight: number): void {
    this.delete(key);
    if (weight > this.#maxWeight) return;
    this.#entries.set(key, { value, weight });
    this.#weight += weight;
    for (const oldest of this.#entries.keys()) {
      if (this.#weight <= this.#maxWeight) return;
      this.delete(oldest);
    }
  }

  delete(key: string): void {
    this.#weight -= this.#entries.get(key)?.weight ?? 0;
    this.#entries.delete(key);
  }
}

/** The files that templates of one place include and import. */
export interface Imports {
  readonly known: KnownFiles;
  /** Has one more read; it is known afterwards. @throws MasterError ERR_PILLAR_FILE */
  read(path: string): Promise<unknown>;
}

/**
 * What a rendering may take on the main thread, some milliseconds at the most: a file of 80 lines
 * takes some hundred steps. What takes more begins again on another thread, with all its limits.
 */
const atOnce: Omit<TemplateLimits, 'depth'> = {
  steps: 5000,
  characters: 64 * 1024,
  milliseconds: 20,
};
/** Of a file, and of a text that is read as data, on the main thread. */
const charactersAtOnce = 16 * 1024;
/** Files that are remembered as those that take more. */
const maxLarge = 1000;
/** Files that one file may include and import. */
const maxImports = 500;

export interface RendererOptions extends Omit<WorkerPoolOptions, 'script'> {
  /** What a rendering may take on the main thread, milliseconds. Default 20. */
  readonly atOnceMs?: number;
}

/** See above. The same comes of it on whichever thread it is done. */
export class Renderer {
  readonly #threads: WorkerPool<RenderOrder, RenderAnswer>;
  readonly #atOnce: typeof atOnce;
  readonly #large = new WeightedCache<true>(maxLarge);

  constructor({ atOnceMs = atOnce.milliseconds, ...threads }: RendererOptions = {}) {
    const script = new URL('./render-worker.js', import.meta.url);
    this.#threads = new WorkerPool({ ...threads, script });
    this.#atOnce = { ...atOnce, milliseconds: atOnceMs };
  }

  /**
   * A template as text.
   * @param notes what it looks at is added to them, also when it fails
   * @throws TemplateError; MasterError ERR_PILLAR_FILE, ERR_RENDER_GIVEN_UP, ERR_MASTER_STOPPED
   */
  async render(
    file: SourceFile,
    task: RenderTask,
    imports: Imports,
    notes: Notes = makeNotes(),
  ): Promise<Rendered> {
    if (!this.#isLarge(file)) {
      // protection: rendering-at-once-1
      const small = { ...task, limits: within(task.limits, this.#atOnce) };
      const rendered = await withImports(file, imports, () =>
        this.#tryAtOnce(file, small, imports.known, notes),
      );
      if (rendered !== undefined) return rendered;
    }
    return this.#renderElsewhere(file, task, imports, notes);
  }

  /**
   * A text as data.
   * @throws TemplateError; MasterError ERR_RENDER_GIVEN_UP, ERR_MASTER_STOPPED
   */
  async read(task: ReadTask): Promise<PlainData> {
    if (task.text.length <= charactersAtOnce) return readData(task);
    const outcome = await this.#ask({ kind: 'read', task });
    if (outcome.kind === 'data') return receiveData(outcome.data);
    throw problemOf(outcome);
  }

  /** Ends the threads, and what is under way on them. May be called twice. */
  close(): Promise<void> {
    return this.#threads.close();
  }

  #isLarge(file: SourceFile): boolean {
    return file.text.length > charactersAtOnce || this.#large.get(markOf(file)) === true;
  }

  /** `undefined`: it takes more than it may on this thread. */
  #tryAtOnce(
    file: SourceFile,
    task: RenderTask,
    known: KnownFiles,
    notes: Notes,
  ): Rendered | undefined {
    const attempt: Notes = { grains: notes.grains, isVolatile: false };
    try {
      return renderTemplate(file, task, known, attempt);
    } catch (error) {
      // protection: rendering-at-once-2
      if (!(error instanceof TemplateError) || error.code !== 'ERR_TEMPLATE_LIMIT') throw error;
      // It begins again, and whether that ends by the clock is another matter.
      attempt.isVolatile = false;
      // How far it came in its time says more of the machine than of the file.
      if (!isTimeout(error)) this.#large.set(markOf(file), true, 1);
      return undefined;
    } finally {
      if (attempt.isVolatile) notes.isVolatile = true;
    }
  }

  async #renderElsewhere(
    file: SourceFile,
    task: RenderTask,
    imports: Imports,
    notes: Notes,
  ): Promise<Rendered> {
    const sent = new Map<string, SourceText | undefined>();
    const read = async (path: string): Promise<void> => {
      if (!imports.known.has(path)) await imports.read(path);
      sent.set(path, textOf(imports.known.get(path)));
    };
    return withImports(file, { read }, async () => {
      const order: RenderOrder = { kind: 'render', file: sourceOf(file), task, known: sent };
      const outcome = await this.#ask(order, notes);
      if (outcome.kind === 'rendered') return outcome.rendered;
      throw problemOf(outcome);
    });
  }

  async #ask(order: RenderOrder, notes?: Notes): Promise<RenderOutcome> {
    const answer = await this.#threads.run(order).catch(rethrowAsMasterError);
    if (notes !== undefined && answer.notes !== undefined) receiveNotes(notes, answer.notes);
    return answer.outcome;
  }
}

function rethrowAsMasterError(error: unknown): never {
  if (!(error instanceof WorkerPoolError)) throw error;
  const { reason, message, cause } = error;
  if (reason === 'closed') {
    throw new MasterError('ERR_MASTER_STOPPED', 'the master is being closed');
  }
  if (reason === 'not-cloneable') throw new TypeError(message, { cause });
  throw new MasterError('ERR_RENDER_GIVEN_UP', `rendering on a thread: ${message}`, { cause });
}

/** Whether an error says that a time was over, or that a thread was not to be had. */
export function isTransient(error: unknown): boolean {
  if (error instanceof TemplateError) return isTimeout(error);
  return error instanceof MasterError && error.code === 'ERR_RENDER_GIVEN_UP';
}

function isTimeout({ kind }: TemplateError): boolean {
  return kind === 'TimeoutError';
}

/** Begins again for each file that is to be read first. */
async function withImports<T>(
  { path }: SourceFile,
  { read }: Pick<Imports, 'read'>,
  attempt: () => T | Promise<T>,
): Promise<T> {
  for (let count = 0; count <= maxImports; count += 1) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof NotRead)) throw error;
      await read(error.path);
    }
  }
  throw new MasterError('ERR_PILLAR_FILE', `${path} imports more than ${maxImports} files`);
}

function within(
  { steps, characters, milliseconds, ...limits }: Partial<TemplateLimits>,
  most: typeof atOnce,
): Partial<TemplateLimits> {
  return {
    ...limits,
    steps: Math.min(steps ?? most.steps, most.steps),
    characters: Math.min(characters ?? most.characters, most.characters),
    milliseconds: Math.min(milliseconds ?? most.milliseconds, most.milliseconds),
  };
}

function problemOf(outcome: RenderOutcome): unknown {
  if (outcome.kind === 'not-read') return new NotRead(outcome.path);
  if (outcome.kind === 'template-error') return receiveTemplateError(outcome.error);
  return outcome.kind === 'failed' ? outcome.error : new TypeError('an answer to another order');
}

function markOf({ digest, path }: SourceText): string {
  return `${digest} ${path}`;
}

function sourceOf({ path, digest, text }: SourceText): SourceText {
  return { path, digest, text };
}

function textOf(file: SourceFile | undefined): SourceText | undefined {
  return file === undefined ? undefined : sourceOf(file);
}

/** Texts that were read before: the same text gives the same data, for however many minions. */
export class ParsedFileCache {
  readonly #renderer: Pick<Renderer, 'read'>;
  readonly #kept: WeightedCache<Promise<PlainData>>;

  /** @param maxCharacters of all texts that are kept. Default 8 Mi */
  constructor(renderer: Pick<Renderer, 'read'>, maxCharacters: number = 8 * 1024 * 1024) {
    this.#renderer = renderer;
    this.#kept = new WeightedCache(maxCharacters);
  }

  /** @throws TemplateError; MasterError ERR_RENDER_GIVEN_UP, ERR_MASTER_STOPPED */
  read(task: ReadTask): Promise<PlainData> {
    const mark = `${task.format}\0${task.name}\0${task.text}`;
    const known = this.#kept.get(mark);
    if (known !== undefined) return known;
    const reading = this.#renderer.read(task);
    this.#kept.set(mark, reading, mark.length);
    reading.catch(() => this.#kept.delete(mark));
    return reading;
  }
}
