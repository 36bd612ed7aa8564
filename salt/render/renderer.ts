/** Renders templates and reads data: what is small at once, the rest on a thread of its own. */

import { LRUCache } from 'lru-cache';
import { MasterError } from '#master';
import { createBoundedMap, WorkerPool, WorkerPoolError } from '#runtime';
import { type PlainData, TemplateError, type TemplateLimits } from '#template';
import {
  type RenderAnswer,
  type RenderOrder,
  type RenderOutcome,
  receiveData,
  receiveNotes,
  receiveQuestion,
  receiveTemplateError,
} from './render-messages.ts';
import {
  type KnownFiles,
  makeNotes,
  NotAnswered,
  type Notes,
  NotRead,
  type Question,
  type ReadTask,
  type Rendered,
  type RenderTask,
  readData,
} from './render-task.ts';
import { renderTemplate } from './render-template.ts';
import type { SourceFile, SourceText } from './source-file.ts';

/**
 * What the steps foresee badly, for instance regular expressions over long texts. Far more than
 * any file takes, so that a busy machine fails none.
 */
export const renderMs = 1000;

/** The files that templates of one place include and import. */
export interface Imports {
  readonly known: KnownFiles;
  /** Has one more read; it is known afterwards. @throws MasterError ERR_PILLAR_FILE */
  read(path: string): Promise<unknown>;
  /** Answers a question; the answer is in the task afterwards. Not needed where none is asked. */
  answer?(question: Question): Promise<void>;
}

/**
 * What a rendering may take on the main thread, some milliseconds at the most: a file of 80 lines
 * takes some hundred steps. What takes more begins again on another thread, with all its limits.
 */
const inlineLimits: Omit<TemplateLimits, 'depth'> = {
  steps: 5000,
  characters: 64 * 1024,
  milliseconds: 20,
};
/** Of a file, and of a text that is read as data, on the main thread. */
const charactersAtOnce = 16 * 1024;
/** Files that are remembered as those that take more. */
const maxLarge = 1000;
/** Files that one file may include and import, and questions that it may ask. */
const maxImports = 500;

export interface RendererOptions
  extends Omit<ConstructorParameters<typeof WorkerPool>[0], 'script'> {
  /** What a rendering may take on the main thread, milliseconds. Default 20. */
  readonly inlineMs?: number;
}

/** Renders templates and parses data; the result does not depend on the thread. */
export class Renderer {
  readonly #threads: WorkerPool<RenderOrder, RenderAnswer>;
  readonly #inlineLimits: typeof inlineLimits;
  readonly #large = createBoundedMap<string, true>(maxLarge);

  constructor({ inlineMs = inlineLimits.milliseconds, ...threads }: RendererOptions = {}) {
    const script = new URL('./render-worker.ts', import.meta.url);
    this.#threads = new WorkerPool({ ...threads, script });
    this.#inlineLimits = { ...inlineLimits, milliseconds: inlineMs };
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
      const small = { ...task, limits: within(task.limits, this.#inlineLimits) };
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
      if (!(error instanceof TemplateError) || error.code !== 'ERR_TEMPLATE_LIMIT') throw error;
      // It begins again, and whether that ends by the clock is another matter.
      attempt.isVolatile = false;
      // How far it came in its time says more of the machine than of the file.
      if (!isTimeout(error)) this.#large.set(markOf(file), true);
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
    return withImports(file, { ...imports, read }, async () => {
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
  { read, answer }: Pick<Imports, 'read' | 'answer'>,
  attempt: () => T | Promise<T>,
): Promise<T> {
  for (let count = 0; count <= maxImports; count += 1) {
    try {
      return await attempt();
    } catch (error) {
      if (error instanceof NotRead) await read(error.path);
      else if (error instanceof NotAnswered && answer !== undefined) await answer(error.question);
      else throw error;
    }
  }
  throw new MasterError('ERR_PILLAR_FILE', `${path} has more than ${maxImports} imports`);
}

function within(
  { steps, characters, milliseconds, ...limits }: Partial<TemplateLimits>,
  most: typeof inlineLimits,
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
  if (outcome.kind === 'not-answered') return new NotAnswered(receiveQuestion(outcome.question));
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
  readonly #kept: LRUCache<string, Promise<PlainData>>;

  /** @param maxCharacters of all texts that are kept. Default 8 Mi */
  constructor(renderer: Pick<Renderer, 'read'>, maxCharacters: number = 8 * 1024 * 1024) {
    this.#renderer = renderer;
    this.#kept = new LRUCache({ maxSize: maxCharacters });
  }

  /** @throws TemplateError; MasterError ERR_RENDER_GIVEN_UP, ERR_MASTER_STOPPED */
  read(task: ReadTask): Promise<PlainData> {
    const mark = `${task.format}\0${task.name}\0${task.text}`;
    const known = this.#kept.get(mark);
    if (known !== undefined) return known;
    const reading = this.#renderer.read(task);
    this.#kept.set(mark, reading, { size: mark.length });
    reading.catch(() => this.#kept.delete(mark));
    return reading;
  }
}
