/** Renders a template, on the main thread or on a rendering thread. */

import type { WireValue } from '#minion-protocol';
import { type RenderOptions, renderJinja, SaltFunctions, TemplateError } from '#template';
import { askingFunctions } from './asked-functions.ts';
import { EventPrinter } from './event-text.ts';
import { GrainReads, GrainsDict, OptionsDict, TracedGrains } from './grains.ts';
import { PrintedMarks } from './late-grains.ts';
import { matchFunctions } from './match-functions.ts';
import { randomFunctions } from './random-functions.ts';
import {
  type KnownFiles,
  type Notes,
  NotRead,
  type PillarTask,
  type ReactionTask,
  type Rendered,
  type RenderTask,
} from './render-task.ts';
import { type SourceFile, slsNames } from './source-file.ts';
import { saltFunctions } from './template-functions.ts';
import { timeFunctions } from './time-functions.ts';
import { insteadOfFunction } from './unserved-functions.ts';

/**
 * Renders a template.
 * @throws NotRead if the template needs a file that `known` does not contain
 * @throws NotAnswered if the template calls a function of the main thread and `task` does not
 * contain the answer
 * @throws TemplateError if the template is invalid or fails
 */
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
    // A timeout depends on the load of the machine, so another attempt may succeed.
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
  const printer = foreign && printerOf({ ...foreign, marksWords: false }, file, known);
  const marks = task.late && new PrintedMarks(task.late, (grain) => notes.grains.addMark(grain));
  const grains = new TracedGrains(task.grains, notes.grains, marks);
  const now = (): Date => {
    notes.isVolatile = true;
    return new Date(task.now);
  };
  const functions = {
    ...timeFunctions(now),
    ...saltFunctions({ grains, setting: task }),
    ...matchFunctions({ ...task, grains }),
    ...randomFunctions(() => {
      notes.isVolatile = true;
    }),
    ...askingFunctions(task),
  };
  const text = renderJinja(file.template(), {
    ...optionsOf(task, known),
    context: {
      ...Object.fromEntries(defaults),
      salt: new SaltFunctions(functions, insteadOfFunction),
      grains: new GrainsDict(grains),
      opts: new OptionsDict(task.opts, grains),
      pillar: task.pillar,
      saltenv,
      sls,
      ...(sls === '' ? {} : slsNames(file.path)),
    },
    now,
    random: () => {
      notes.isVolatile = true;
      return Math.random();
    },
    ...(printer === undefined ? {} : { print: printer.print }),
  });
  return { text, marked: printer?.texts ?? [], late: marks?.paths ?? [] };
}

/**
 * Renders a reaction with the grains and options of the master, because a reaction does not belong
 * to a minion.
 */
function renderReaction(file: SourceFile, task: ReactionTask, known: KnownFiles): Rendered {
  const { tag, data, grains, opts, masterOptions } = task;
  const { secret } = task;
  const printer = printerOf({ secret, words: [tag, data], marksWords: true }, file, known);
  const setting = { pillar: new Map(), raisesOnMissing: false, masterOptions };
  const functions = saltFunctions({ grains: new TracedGrains(grains, new GrainReads()), setting });
  const salt = new SaltFunctions(functions, insteadOfFunction);
  const text = renderJinja(file.template(), {
    ...optionsOf(task, known),
    print: printer.print,
    context: { tag, data, grains, opts, pillar: {}, saltenv: '', sls: '', salt },
  });
  return { text, marked: printer.texts, late: [] };
}

interface PrintedInput {
  readonly secret: string;
  /**
   * Untrusted values, for example the data of an event. Templates print the texts in them as
   * placeholders. `undefined` if there are no such values.
   */
  readonly words: WireValue;
  readonly marksWords: boolean;
}

function printerOf(
  { secret, words, marksWords }: PrintedInput,
  file: SourceFile,
  known: KnownFiles,
): EventPrinter {
  const files = (): string[] => [file, ...known.values()].map((one) => one?.text ?? '');
  return new EventPrinter(secret, { event: words, files, marksWords });
}

function optionsOf({ limits }: RenderTask, known: KnownFiles): RenderOptions {
  return {
    limits,
    loader: {
      load: (path) => {
        if (!known.has(path)) throw new NotRead(path);
        return known.get(path)?.template();
      },
    },
  };
}
