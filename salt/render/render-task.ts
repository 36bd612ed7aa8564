import type { Nodegroups, WireMap } from '#minion-protocol';
import { Interruption, type PlainData, parseYaml, type TemplateLimits } from '#template';
import { GrainReads } from './grains.ts';
import { type PillarMap, parseJsonData } from './pillar-data.ts';
import type { SourceFile, TemplateWhitespace } from './source-file.ts';

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
  /** `pillar_merge_lists`. */
  readonly mergeLists: boolean;
  readonly nodegroups: Nodegroups;
  /** When it is rendered, milliseconds since 1970. */
  readonly now: number;
  /** Names of the functions that the main thread answers, see {@link Question}. */
  readonly asked: readonly string[];
  /** What was answered until now, by mark. */
  readonly answers: ReadonlyMap<string, Answer>;
  /** Of an orchestration for somebody who may not do everything. */
  readonly foreign?: UntrustedInput | undefined;
}

/** Words that are values in whatever is rendered, as those of events are. */
export interface UntrustedInput {
  readonly words: WireMap;
  /** Secret of the marks in the text; see event-text.ts. */
  readonly secret: string;
}

/** A file for the reactor. */
export interface ReactionTask extends TemplateTask {
  readonly kind: 'reaction';
  readonly tag: string;
  readonly data: WireMap;
  /** Secret of the marks in the text; see event-text.ts. */
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

/** A call of a function that needs more than the template and its values. */
export interface Question {
  /** Tells this call from the others of the same rendering. */
  readonly mark: string;
  readonly fun: string;
  readonly args: readonly PlainData[];
  readonly kwargs: Readonly<Record<string, PlainData>>;
}

/** Result of a {@link Question}, or why there is none. */
export type Answer = { readonly value: PlainData } | { readonly error: string };

/** A template asked what was not answered yet: it is answered, and the template begins again. */
export class NotAnswered extends Interruption {
  static {
    NotAnswered.prototype.name = NotAnswered.name;
  }

  readonly question: Question;

  constructor(question: Question) {
    super(`${question.fun} is to be called first`);
    this.question = question;
  }
}

/** A template asked for a file that was not read yet: it is read, and the template begins again. */
export class NotRead extends Interruption {
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
