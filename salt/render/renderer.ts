/**
 * Renders templates and parses data. Small inputs are processed on the main thread, others on a
 * worker thread.
 */

import { MasterError } from '#master';
import type { WireValue } from '#minion-protocol';
import {
  type LimitValues,
  unlimitedSteps,
  WorkBudget,
  WorkerPool,
  WorkerPoolError,
} from '#runtime';
import { type PlainData, TemplateError, type TemplateLimits } from '#template';
import { saltLimits } from '../limits.ts';
import { OwnedCache } from '../owned-cache.ts';
import type { CallTask } from './call-function.ts';
import { LargeTemplates } from './large-templates.ts';
import {
  type RenderAnswer,
  type RenderOrder,
  type RenderOutcome,
  receiveDataInSlices,
  receiveNotes,
  receiveQuestion,
  receiveResult,
  receiveTemplateError,
  sendCall,
  sendTask,
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
 * Maximum CPU time of a rendering, in milliseconds. It limits work that the step limit does not
 * measure, such as regular expressions on long texts.
 */
export const renderMs = 1000;

/** Files that templates of one environment can include and import. */
export interface Imports {
  readonly known: KnownFiles;
  /**
   * Reads a file and adds it to the map of known files.
   * @throws MasterError ERR_PILLAR_FILE
   */
  read(path: string): Promise<unknown>;
  /**
   * Executes a function call that a template needs, called a {@link Question}, and adds the result
   * to the task. Not needed if the templates cannot request such calls.
   */
  answer?(question: Question): Promise<void>;
}

/**
 * Limits of a rendering on the main thread. A rendering within these limits takes a few
 * milliseconds. A file of 80 lines needs a few hundred steps. A rendering that exceeds a limit
 * starts again on a worker thread, which has higher limits.
 */
const inlineLimits: Omit<TemplateLimits, 'depth'> = {
  steps: 5000,
  characters: 64 * 1024,
  milliseconds: 20,
};
/** Maximum size of a file or data text that the main thread processes, in characters. */
const charactersAtOnce = 16 * 1024;
/**
 * Maximum number of times that the rendering of one file starts again. It starts again for each
 * file that it includes or imports, and for each call that the main thread must execute.
 */
const maxImports = 500;

export interface RendererOptions
  extends Omit<ConstructorParameters<typeof WorkerPool>[1], 'script'> {
  /** Maximum CPU time of a rendering on the main thread, in milliseconds. Default: 20. */
  readonly inlineMs?: number;
}

/** Owner of renderings that do not belong to a minion. */
export const noMinion = '';

/**
 * Minion for which a file is rendered, and the object that receives the dependencies of the result
 * (`notes`).
 */
interface RenderedFor {
  readonly owner: string;
  readonly notes?: Notes;
}

/**
 * Renders templates and parses data. The result is the same on the main thread and on a worker
 * thread.
 */
export class Renderer {
  readonly #threads: WorkerPool<RenderOrder, RenderAnswer>;
  readonly #inlineLimits: typeof inlineLimits;
  readonly #large = new LargeTemplates();

  constructor({ inlineMs = inlineLimits.milliseconds, ...threads }: RendererOptions = {}) {
    const script = new URL('./render-worker.ts', import.meta.url);
    this.#threads = new WorkerPool(saltLimits.renderThreads, { ...threads, script });
    this.#inlineLimits = { ...inlineLimits, milliseconds: inlineMs };
  }

  /**
   * Renders a template.
   * @param notes - receives the dependencies, even if the rendering fails
   * @param owner - minion for which the file is rendered. Default: none
   * @throws TemplateError; MasterError ERR_PILLAR_FILE, ERR_RENDER_GIVEN_UP, ERR_MASTER_STOPPED
   */
  async render(
    file: SourceFile,
    task: RenderTask,
    imports: Imports,
    notes: Notes = makeNotes(),
    owner: string = noMinion,
  ): Promise<Rendered> {
    if (!this.#isLarge(file, owner)) {
      const small = { ...task, limits: within(task.limits, this.#inlineLimits) };
      const rendered = await withImports(file, imports, () =>
        this.#tryAtOnce(file, small, imports.known, { notes, owner }),
      );
      if (rendered !== undefined) return rendered;
    }
    return this.#renderElsewhere(file, task, imports, { notes, owner });
  }

  /**
   * Parses a text as data.
   * @param owner - minion or user for which the text is parsed
   * @throws TemplateError; MasterError ERR_RENDER_GIVEN_UP, ERR_MASTER_STOPPED
   */
  async read(task: ReadTask, owner: string): Promise<PlainData> {
    if (task.text.length <= charactersAtOnce) return readData(task);
    const outcome = await this.#ask({ kind: 'read', task }, { owner });
    if (outcome.kind === 'data') {
      return receiveDataInSlices(outcome.data, new WorkBudget(unlimitedSteps, owner));
    }
    throw problemOf(outcome);
  }

  /**
   * Calls a template function on a worker thread.
   * @param owner - user who calls the function
   * @param budget - for unpacking the result in slices
   * @throws MasterError ERR_ARGS if the function fails; ERR_RENDER_GIVEN_UP, ERR_MASTER_STOPPED
   */
  async call(task: CallTask, owner: string, budget: WorkBudget): Promise<WireValue> {
    const outcome = await this.#ask({ kind: 'call', task: sendCall(task) }, { owner });
    if (outcome.kind === 'called') return receiveResult(outcome.value, budget);
    throw problemOf(outcome);
  }

  /** Stops the worker threads and the tasks that they are running. May be called twice. */
  close(): Promise<void> {
    return this.#threads.close();
  }

  #isLarge(file: SourceFile, owner: string): boolean {
    return file.text.length > charactersAtOnce || this.#large.has(markOf(file), owner);
  }

  /**
   * Tries to render on the main thread. Returns `undefined` if a limit of this thread was exceeded.
   */
  #tryAtOnce(
    file: SourceFile,
    task: RenderTask,
    known: KnownFiles,
    { notes, owner }: Required<RenderedFor>,
  ): Rendered | undefined {
    const attempt: Notes = { grains: notes.grains, isVolatile: false };
    try {
      return renderTemplate(file, task, known, attempt);
    } catch (error) {
      if (!(error instanceof TemplateError) || error.code !== 'ERR_TEMPLATE_LIMIT') throw error;
      // The rendering starts again on a worker thread, where it has more time.
      attempt.isVolatile = false;
      // A timeout depends on the load of the machine, so it does not mark the file as large.
      if (!isTimeout(error)) this.#large.add(markOf(file), owner);
      return undefined;
    } finally {
      if (attempt.isVolatile) notes.isVolatile = true;
    }
  }

  async #renderElsewhere(
    file: SourceFile,
    task: RenderTask,
    imports: Imports,
    by: RenderedFor,
  ): Promise<Rendered> {
    const sent = new Map<string, SourceText | undefined>();
    const read = async (path: string): Promise<void> => {
      if (!imports.known.has(path)) await imports.read(path);
      sent.set(path, textOf(imports.known.get(path)));
    };
    return withImports(file, { ...imports, read }, async () => {
      const order: RenderOrder = {
        kind: 'render',
        file: sourceOf(file),
        task: sendTask(task),
        known: sent,
      };
      const outcome = await this.#ask(order, by);
      if (outcome.kind === 'rendered') return outcome.rendered;
      throw problemOf(outcome);
    });
  }

  async #ask(order: RenderOrder, { notes, owner }: RenderedFor): Promise<RenderOutcome> {
    const answer = await this.#threads.run(order, owner).catch(rethrowAsMasterError);
    if (notes !== undefined && answer.notes !== undefined) receiveNotes(notes, answer.notes);
    return answer.outcome;
  }
}

function rethrowAsMasterError(error: unknown): never {
  if (!(error instanceof WorkerPoolError)) throw error;
  const { reason, message, cause } = error;
  if (reason === 'closed') {
    throw new MasterError('ERR_MASTER_STOPPED', 'the master is closing');
  }
  if (reason === 'not-cloneable') throw new TypeError(message, { cause });
  throw new MasterError('ERR_RENDER_GIVEN_UP', `rendering thread failed: ${message}`, { cause });
}

/**
 * Whether another attempt may succeed, because a timeout or an unavailable thread caused the error.
 */
export function isTransient(error: unknown): boolean {
  if (error instanceof TemplateError) return isTimeout(error);
  return error instanceof MasterError && error.code === 'ERR_RENDER_GIVEN_UP';
}

function isTimeout({ kind }: TemplateError): boolean {
  return kind === 'TimeoutError';
}

/**
 * Renders a template. If the rendering stops because it needs the content of a file or the result
 * of a call, obtains this content or result, and renders again from the start.
 */
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
  if (outcome.kind === 'not-called') return new MasterError('ERR_ARGS', outcome.reason);
  if (outcome.kind === 'template-error') return receiveTemplateError(outcome.error);
  return outcome.kind === 'failed'
    ? outcome.error
    : new TypeError('internal error: the rendering thread sent an unexpected type of answer');
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

/** Cache of parsed texts, which all minions share. */
export class ParsedFileCache {
  readonly #renderer: Pick<Renderer, 'read'>;
  readonly #kept: OwnedCache<Promise<PlainData>>;

  /**
   * Creates an empty cache.
   * @param amounts - maximum total length of the cached texts, in characters: of one owner
   * (`perOwner`), and of all owners (`total`)
   */
  constructor(
    renderer: Pick<Renderer, 'read'>,
    amounts: Pick<LimitValues, 'perOwner' | 'total'> = saltLimits.parsedCharacters,
  ) {
    this.#renderer = renderer;
    const sizeOf = (_: unknown, mark: string): number => mark.length;
    this.#kept = new OwnedCache<Promise<PlainData>>(
      saltLimits.parsedCharacters,
      { sizeOf },
      amounts,
    );
  }

  /**
   * Parses a text, or returns the cached data.
   * @param owner - minion or user for which the text is parsed
   * @throws TemplateError; MasterError ERR_RENDER_GIVEN_UP, ERR_MASTER_STOPPED
   */
  read(task: ReadTask, owner: string): Promise<PlainData> {
    const marks = task.marks === undefined ? '' : '\0marks';
    const mark = `${task.format}${marks}\0${task.name}\0${task.text}`;
    const known = this.#kept.get(mark);
    if (known !== undefined) return known;
    const reading = this.#renderer.read(task, owner);
    this.#kept.set(owner, mark, reading);
    reading.catch(() => this.#kept.delete(mark));
    return reading;
  }
}
