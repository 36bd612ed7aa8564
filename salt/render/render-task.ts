import type { Nodegroups, WireMap } from '#minion-protocol';
import { Interruption, type PlainData, parseYaml, type TemplateLimits } from '#template';
import { GrainReads } from './grains.ts';
import { type PillarMap, parseJsonData } from './pillar-data.ts';
import type { SourceFile, TemplateWhitespace } from './source-file.ts';

/** A template to render. */
interface TemplateTask extends TemplateWhitespace {
  readonly limits: Partial<TemplateLimits>;
  /** Value of `grains` in templates, also used by functions. */
  readonly grains: WireMap;
  /** Value of `opts` in templates. */
  readonly opts: Readonly<Record<string, unknown>>;
}

/** A pillar file to render. */
export interface PillarTask extends TemplateTask {
  readonly kind: 'pillar';
  /** Id of the minion whose pillar is rendered. */
  readonly id: string;
  readonly saltenv: string;
  /** Name of the SLS, for example `web.common`. Empty for a top file. */
  readonly sls: string;
  /** Additional variables: the `defaults` of an include. */
  readonly defaults: PillarMap;
  /** Value of `pillar` in templates. */
  readonly pillar: PillarMap;
  readonly raisesOnMissing: boolean;
  /** Whether lists are merged (`pillar_merge_lists`). */
  readonly mergeLists: boolean;
  readonly nodegroups: Nodegroups;
  /** Time of the rendering, in milliseconds since 1970. */
  readonly now: number;
  /** Names of the functions that the main thread executes, see {@link Question}. */
  readonly asked: readonly string[];
  /** Answers so far, by mark. */
  readonly answers: ReadonlyMap<string, Answer>;
  /** Untrusted data, in an orchestration of a caller without all rights. */
  readonly foreign?: UntrustedInput | undefined;
}

/** Data whose texts are treated as plain values in the rendered text, as event data are. */
export interface UntrustedInput {
  readonly words: WireMap;
  /** Secret of the marks in the text; see event-text.ts. */
  readonly secret: string;
}

/** A reactor file to render. */
export interface ReactionTask extends TemplateTask {
  readonly kind: 'reaction';
  readonly tag: string;
  readonly data: WireMap;
  /** Secret of the marks in the text; see event-text.ts. */
  readonly secret: string;
}

/** A template with its purpose. */
export type RenderTask = PillarTask | ReactionTask;

/** A text to parse as data. */
export interface ReadTask {
  readonly kind: 'read';
  readonly format: 'yaml' | 'json';
  readonly text: string;
  /** Name in error messages. */
  readonly name: string;
}

/** Rendered text of a template. */
export interface Rendered {
  readonly text: string;
  /** Original texts of the marks in a reaction. */
  readonly marked: readonly string[];
}

/** Dependencies of a rendering besides files. They are recorded even if it fails. */
export interface Notes {
  readonly grains: GrainReads;
  /**
   * Whether the rendering used time or randomness, or timed out, so that its result may differ each
   * time.
   */
  isVolatile: boolean;
}

export function makeNotes(): Notes {
  return { grains: new GrainReads(), isVolatile: false };
}

/** Files read so far that a template includes or imports. `undefined` for missing files. */
export type KnownFiles = ReadonlyMap<string, SourceFile | undefined>;

/** A call of a function that the main thread must execute. */
export interface Question {
  /** Mark that distinguishes the calls of one rendering. */
  readonly mark: string;
  readonly fun: string;
  readonly args: readonly PlainData[];
  readonly kwargs: Readonly<Record<string, PlainData>>;
}

/** Result or error of a {@link Question}. */
export type Answer = { readonly value: PlainData } | { readonly error: string };

/**
 * Interrupts a rendering at an unanswered question. After the answer, the rendering starts again.
 */
export class NotAnswered extends Interruption {
  static {
    NotAnswered.prototype.name = NotAnswered.name;
  }

  readonly question: Question;

  constructor(question: Question) {
    super(`${question.fun} must be called before the rendering continues`);
    this.question = question;
  }
}

/**
 * Interrupts a rendering at a file that has not been read. After the read, the rendering starts
 * again.
 */
export class NotRead extends Interruption {
  static {
    NotRead.prototype.name = NotRead.name;
  }

  readonly path: string;

  constructor(path: string) {
    super('a file must be read before the rendering continues');
    this.path = path;
  }
}

/**
 * Parses a text. Runs on any thread.
 * @throws TemplateError ERR_YAML, ERR_TEMPLATE_LIMIT
 */
export function readData({ format, text, name }: ReadTask): PlainData {
  return format === 'json' ? parseJsonData(text, name) : parseYaml(text, { name });
}
