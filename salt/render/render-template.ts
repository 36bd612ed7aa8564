/** Renders a template, on whichever thread. */

import { LRUCache } from 'lru-cache';
import type { WireValue } from '#minion-protocol';
import { type RenderOptions, renderJinja, TemplateError } from '#template';
import { EventPrinter } from './event-text.ts';
import { GrainReads, GrainsDict, TracedGrains } from './grains.ts';
import {
  type SourceFile,
  type SourceText,
  slsNames,
  type TemplateWhitespace,
  toSourceFile,
} from './pillar-data.ts';
import {
  type KnownFiles,
  makeNotes,
  type Notes,
  NotRead,
  type PillarTask,
  type ReactionTask,
  type RenderAnswer,
  type Rendered,
  type RenderOrder,
  type RenderOutcome,
  type RenderTask,
  readData,
  receiveMap,
  sendNotes,
  sendTemplateError,
} from './render-task.ts';
import { matchFunctions, saltFunctions } from './template-functions.ts';

/** @throws NotRead, TemplateError */
export function renderTemplate(
  file: SourceFile,
  task: RenderTask,
  known: KnownFiles,
  notes: Notes,
): Rendered {
  try {
    return task.kind === 'pillar'
      ? renderPillar(file, task, known, notes)
      : renderReaction(file, task, known);
  } catch (error) {
    // How far it comes in its time is chance.
    if (error instanceof TemplateError && error.kind === 'TimeoutError') notes.isVolatile = true;
    throw error;
  }
}

function renderPillar(
  file: SourceFile,
  task: PillarTask,
  known: KnownFiles,
  notes: Notes,
): Rendered {
  const { saltenv, sls, defaults, foreign } = task;
  const printer = foreign && printerOf(foreign.secret, foreign.words, file, known);
  const grains = new TracedGrains(task.grains, notes.grains);
  const text = renderJinja(file.template(), {
    ...optionsOf(file, task, known),
    functions: {
      ...saltFunctions({ grains, setting: task }),
      ...matchFunctions({ ...task, grains }),
    },
    context: {
      ...Object.fromEntries(defaults),
      grains: new GrainsDict(grains),
      opts: task.opts,
      pillar: task.pillar,
      saltenv,
      sls,
      ...(sls === '' ? {} : slsNames(file.path)),
    },
    now: () => {
      notes.isVolatile = true;
      return new Date(task.now);
    },
    random: () => {
      notes.isVolatile = true;
      return Math.random();
    },
    ...(printer === undefined ? {} : { print: (value) => printer.print(value) }),
  });
  return { text, marked: printer?.texts ?? [] };
}

/** Grains and options are those of the master: reactions are no minion's. */
function renderReaction(file: SourceFile, task: ReactionTask, known: KnownFiles): Rendered {
  const { tag, data, grains, opts } = task;
  const printer = printerOf(task.secret, [tag, data], file, known);
  const setting = { pillar: new Map(), raisesOnMissing: false, opts };
  const text = renderJinja(file.template(), {
    ...optionsOf(file, task, known),
    functions: saltFunctions({ grains: new TracedGrains(grains, new GrainReads()), setting }),
    print: (value) => printer.print(value),
    context: { tag, data, grains, opts, pillar: {}, saltenv: '', sls: '' },
  });
  return { text, marked: printer.texts };
}

function printerOf(
  secret: string,
  event: WireValue,
  file: SourceFile,
  known: KnownFiles,
): EventPrinter {
  const files = (): string[] => [file, ...known.values()].map((one) => one?.text ?? '');
  return new EventPrinter(secret, { event, files });
}

function optionsOf(
  file: SourceFile,
  { trimBlocks, lstripBlocks, limits }: RenderTask,
  known: KnownFiles,
): RenderOptions {
  return {
    name: file.path,
    trimBlocks,
    lstripBlocks,
    limits,
    loader: {
      load: (path) => {
        if (!known.has(path)) throw new NotRead(path);
        return known.get(path)?.template();
      },
    },
  };
}

// The side of the worker thread.

/** Files that came with orders, each parsed once as long as it is kept. */
export class ReceivedFiles {
  readonly #kept = new LRUCache<string, SourceFile>({ maxSize: 16 * 1024 * 1024 });

  /** @param whitespace the same in all orders, because it is of the master's options */
  take(source: SourceText, whitespace: TemplateWhitespace): SourceFile {
    const mark = `${source.digest} ${source.path}`;
    const known = this.#kept.get(mark);
    if (known !== undefined) return known;
    const file = toSourceFile(source, whitespace);
    this.#kept.set(mark, file, { size: Math.max(1, source.text.length) });
    return file;
  }
}

/** Does what an order says; what goes wrong is in the answer. */
export function handleTask(order: RenderOrder, files: ReceivedFiles): RenderAnswer {
  if (order.kind === 'read') {
    return { outcome: outcomeOf(() => ({ kind: 'data', data: readData(order.task) })) };
  }
  const notes = makeNotes();
  const outcome = outcomeOf(() => ({ kind: 'rendered', rendered: render(order, files, notes) }));
  return { outcome, notes: sendNotes(notes) };
}

function render(
  { file, task, known }: RenderOrder & { readonly kind: 'render' },
  files: ReceivedFiles,
  notes: Notes,
): ReturnType<typeof renderTemplate> {
  const imported = Array.from(known, ([path, source]): [string, SourceFile | undefined] => {
    return [path, source === undefined ? undefined : files.take(source, task)];
  });
  return renderTemplate(files.take(file, task), received(task), new Map(imported), notes);
}

function received(task: RenderTask): RenderTask {
  if (task.kind === 'reaction') return task;
  return { ...task, defaults: receiveMap(task.defaults), pillar: receiveMap(task.pillar) };
}

function outcomeOf(work: () => RenderOutcome): RenderOutcome {
  try {
    return work();
  } catch (error) {
    if (error instanceof NotRead) return { kind: 'not-read', path: error.path };
    if (error instanceof TemplateError) {
      return { kind: 'template-error', error: sendTemplateError(error) };
    }
    return { kind: 'failed', error };
  }
}
