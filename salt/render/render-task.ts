import type { Nodegroups, WireMap } from '#minion-protocol';
import {
  Float,
  type PlainData,
  parseYaml,
  TemplateError,
  type TemplateErrorCode,
  type TemplateLimits,
} from '#template';
import { GrainReads } from './grains.ts';
import {
  type PillarMap,
  parseJsonData,
  type SourceFile,
  type SourceText,
  type TemplateWhitespace,
} from './pillar-data.ts';

// Messages between the main thread and a rendering thread; they can be cloned.

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
export interface SentNotes {
  readonly values: ReadonlyMap<string, Uint8Array | null>;
  readonly whole: Uint8Array | undefined;
  readonly isVolatile: boolean;
}

export interface SentTemplateError {
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

// Tasks, for this thread or another.

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
  /** Of the marks in the text; see event-text.ts. */
  readonly secret: string;
}

/** A file for the reactor. */
export interface ReactionTask extends TemplateTask {
  readonly kind: 'reaction';
  readonly tag: string;
  readonly data: WireMap;
  /** Of the marks in the text; see event-text.ts. */
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

/** Reads a text, on whichever thread. @throws TemplateError ERR_YAML, ERR_TEMPLATE_LIMIT */
export function readData({ format, text, name }: ReadTask): PlainData {
  return format === 'json' ? parseJsonData(text, name) : parseYaml(text, { name });
}
