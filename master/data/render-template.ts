/** Renders a template, on whichever thread. */

import type { WireValue } from '../../minion-protocol/index.ts';
import {
  Dict,
  Float,
  isText,
  type PlainData,
  printedText,
  type RenderOptions,
  renderJinja,
  TemplateError,
  textOf,
  type Value,
} from '../../template/index.ts';
import {
  GrainReads,
  GrainsDict,
  matchFunctions,
  saltFunctions,
  TracedGrains,
} from './compile-pillar.ts';
import {
  type SourceFile,
  type SourceText,
  slsNames,
  type TemplateWhitespace,
  toSourceFile,
} from './pillar-sources.ts';
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
  WeightedCache,
} from './renderer.ts';

// Text of events in files that are rendered and then read as YAML. What could mean something to
// YAML stands in the rendered text as a mark, and is put in its place when the YAML has been read:
// so it is a value, or a part of one, whatever it says.

/** Brackets of a mark: printable for YAML, and in no alphabet. */
const [open, close] = ['\uE000', '\uE001'];

/** @param secret letters and digits: nobody can foresee it, so no event has marks of its own */
export function markFor(place: number, secret: string): string {
  return `${open}${secret}.${place}${close}`;
}

/** The text of one rendering, of which {@link markFor} stands for parts. */
export class EventText {
  readonly #texts: readonly string[];
  readonly #marks: RegExp;

  /** @param texts by place */
  constructor(secret: string, texts: readonly string[]) {
    this.#texts = texts;
    this.#marks = new RegExp(`${open}${secret}\\.(\\d+)${close}`, 'gu');
  }

  /** Whether a text has some that was marked. */
  isIn(text: string): boolean {
    return this.restore(text) !== text;
  }

  /** A text with what was marked in its place. */
  restore(text: string): string {
    if (!text.includes(open)) return text;
    // A mark can only stand in the texts of those that were made after it.
    return text.replace(this.#marks, (_mark, place) => this.restore(this.#texts[place] ?? ''));
  }

  /** The same for all texts in it, the keys of maps among them. */
  restoreAll(data: PlainData): PlainData {
    if (typeof data === 'string') return this.restore(data);
    if (isList(data)) return data.map((item) => this.restoreAll(item));
    if (!(data instanceof Map)) return data;
    return new Map(
      Array.from(data, ([key, value]) => [this.restoreAll(key), this.restoreAll(value)]),
    );
  }
}

function isList(data: PlainData): data is readonly PlainData[] {
  return Array.isArray(data);
}

// Puts values of an event into a text that is then read as YAML: see event-text.ts.

/** Means nothing to YAML wherever it stands, nor to any kind of target but as an id. */
const inert = /^(?![-.]{1,3}$)[A-Za-z0-9_/.+~-][A-Za-z0-9_/.+~:-]*$/;

/** What tells the operator's own words from those of an event. */
export interface Origins {
  readonly event: WireValue;
  /** The texts of the files, as they were read until now. */
  readonly files: () => Iterable<string>;
}

/** Prints the values of one rendering. */
export class EventPrinter {
  readonly #texts: string[] = [];
  readonly #origins: Origins;
  readonly #secret: string;

  constructor(secret: string, origins: Origins) {
    this.#secret = secret;
    this.#origins = origins;
  }

  /** What marks stand for, by place. */
  get texts(): readonly string[] {
    return this.#texts;
  }

  /** What stands in the rendered text for a value. */
  print(value: Value): string {
    if (isText(value)) return this.#marked(textOf(value));
    if (isContainer(value)) return this.#isInert(value) ? printedText(value) : this.#written(value);
    return typeof value === 'object' && !(value instanceof Float)
      ? this.#marked(printedText(value))
      : printedText(value);
  }

  #marked(text: string): string {
    // protection: events-as-yaml
    if (text === '' || isInert(text) || this.#isOperators(text)) return text;
    this.#texts.push(text);
    return markFor(this.#texts.length - 1, this.#secret);
  }

  /** Whether it stands so in a file, and nowhere in the event. */
  #isOperators(text: string): boolean {
    const { event, files } = this.#origins;
    const isWritten = [...files()].some((file) => file.includes(text));
    return isWritten && !says(event, text);
  }

  #isInert(value: Value): boolean {
    if (isText(value)) return isInert(textOf(value)) || this.#isOperators(textOf(value));
    if (Array.isArray(value)) return value.every((item) => this.#isInert(item));
    if (value instanceof Dict) {
      return [...value.entries()].every(([k, v]) => this.#isInert(k) && this.#isInert(v));
    }
    return typeof value !== 'object' || value === null || value instanceof Float;
  }

  /** A list or a map as JSON, which is YAML, with marks in its texts. */
  #written(value: Value): string {
    if (Array.isArray(value)) return `[${value.map((item) => this.#written(item)).join(', ')}]`;
    if (value instanceof Dict) {
      const pairs = Array.from(value.entries(), ([key, item]) => {
        return `${this.#written(key)}: ${this.#written(item)}`;
      });
      return `{${pairs.join(', ')}}`;
    }
    if (isText(value)) return `"${this.#marked(textOf(value))}"`;
    if (value === null) return 'null';
    if (typeof value === 'boolean') return String(value);
    return this.print(value);
  }
}

function isInert(text: string): boolean {
  return inert.test(text) && !text.endsWith(':') && !/^-(?!\d)/.test(text);
}

/** Whether a text is in some text of an event, names among them. */
function says(value: WireValue, text: string): boolean {
  if (typeof value === 'string') return value.includes(text);
  if (typeof value !== 'object' || value === null) return false;
  if (value instanceof Uint8Array) return Buffer.from(value).includes(text);
  if (Array.isArray(value)) return value.some((item) => says(item, text));
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  return entries.some(([name, inner]) => says(name, text) || says(inner, text));
}

function isContainer(value: Value): value is Value[] | Dict {
  return Array.isArray(value) || value instanceof Dict;
}

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

// A thread's side of rendering: an order in, an answer out.

/** Files that came with orders, each parsed once as long as it is kept. */
export class ReceivedFiles {
  readonly #kept = new WeightedCache<SourceFile>(16 * 1024 * 1024);

  /** @param whitespace the same in all orders, because it is of the master's options */
  take(source: SourceText, whitespace: TemplateWhitespace): SourceFile {
    const mark = `${source.digest} ${source.path}`;
    const known = this.#kept.get(mark);
    if (known !== undefined) return known;
    const file = toSourceFile(source, whitespace);
    this.#kept.set(mark, file, source.text.length);
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
