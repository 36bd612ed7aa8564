/** Handles render tasks in a worker thread. */

import { packLocalWithin } from '#minion-protocol';
import { createBoundedMap } from '#runtime';
import { TemplateError } from '#template';
import { saltLimits } from '../limits.ts';
import { type CallTask, callFunction } from './call-function.ts';
import {
  type RenderAnswer,
  type RenderOrder,
  type RenderOutcome,
  receiveCall,
  receiveTask,
  sendNotes,
  sendTemplateError,
} from './render-messages.ts';
import { makeNotes, NotAnswered, type Notes, NotRead, readData } from './render-task.ts';
import { renderTemplate } from './render-template.ts';
import {
  type SourceFile,
  type SourceText,
  type TemplateWhitespace,
  toSourceFile,
} from './source-file.ts';

/**
 * Cache of the template files that the main thread has sent, so that each file is parsed only once.
 */
export class ReceivedFiles {
  readonly #kept = createBoundedMap<string, SourceFile>(saltLimits.receivedCharacters, {
    sizeOf: ({ text }) => Math.max(1, text.length),
  });

  /**
   * Returns the parsed file from the cache. If the cache lacks it, adds it.
   * @param whitespace - handling of whitespace in templates. All calls must pass the same value,
   * because it is not part of the cache key
   */
  take(source: SourceText, whitespace: TemplateWhitespace): SourceFile {
    const mark = `${source.digest} ${source.path}`;
    const known = this.#kept.get(mark);
    if (known !== undefined) return known;
    const file = toSourceFile(source, whitespace);
    this.#kept.set(mark, file);
    return file;
  }
}

/**
 * Renders a template, parses data or calls a function for the main thread. Errors are returned as
 * part of the answer.
 */
export function handleTask(order: RenderOrder, files: ReceivedFiles): RenderAnswer {
  if (order.kind === 'read') {
    return { outcome: outcomeOf(() => ({ kind: 'data', data: readData(order.task) })) };
  }
  if (order.kind === 'call') {
    return { outcome: outcomeOf(() => outcomeOfCall(receiveCall(order.task))) };
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
  return renderTemplate(files.take(file, task), receiveTask(task), new Map(imported), notes);
}

const { perOwner: maxResultBytes = Infinity } = saltLimits.callResults;

/** Calls a function. All its errors are caused by its arguments. */
function outcomeOfCall(task: CallTask): RenderOutcome {
  try {
    const value = packLocalWithin(callFunction(task), maxResultBytes);
    if (value !== undefined) return { kind: 'called', value };
    const reason = `the result of ${task.fun} exceeds the limit of ${maxResultBytes} bytes`;
    return { kind: 'not-called', reason: `${reason}; call it with fewer or shorter arguments` };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return { kind: 'not-called', reason: error.message };
  }
}

function outcomeOf(work: () => RenderOutcome): RenderOutcome {
  try {
    return work();
  } catch (error) {
    if (error instanceof NotAnswered) return { kind: 'not-answered', question: error.question };
    if (error instanceof NotRead) return { kind: 'not-read', path: error.path };
    if (error instanceof TemplateError) {
      return { kind: 'template-error', error: sendTemplateError(error) };
    }
    return { kind: 'failed', error };
  }
}
