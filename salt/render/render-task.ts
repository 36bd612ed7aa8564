import type { Nodegroups, WireMap } from '#minion-protocol';
import {
  Interruption,
  type PlainData,
  parseYaml,
  type TemplateLimits,
  type TextMarks,
} from '#template';
import { saltLimits } from '../limits.ts';
import { GrainReads } from './grains.ts';
import type { LatePath, LateRules } from './late-grains.ts';
import { type PillarMap, parseJsonData } from './pillar-data.ts';
import type { SourceFile, TemplateWhitespace } from './source-file.ts';

/**
 * Maximum number of values in one text. A minion can determine the text: a template may print a
 * grain that contains YAML. The main thread copies all values, and packs them for the reply.
 */
const maxValues = saltLimits.textValues.perOwner ?? Infinity;

/** A template to render. */
interface TemplateTask extends TemplateWhitespace {
  readonly limits: Partial<TemplateLimits>;
  /** Value of `grains` in templates. Template functions read it too. */
  readonly grains: WireMap;
  /** Value of `opts` in templates. */
  readonly opts: Readonly<Record<string, unknown>>;
  /** Options of the master that `config.get` returns, by their names in Salt. */
  readonly masterOptions: WireMap;
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
  /** Current time for the rendering, in milliseconds since 1970. */
  readonly now: number;
  /**
   * Names of the functions that the main thread executes. A call of one of them becomes a {@link
   * Question}.
   */
  readonly asked: readonly string[];
  /** Results of earlier calls of functions in `asked`, by {@link Question.mark}. */
  readonly answers: ReadonlyMap<string, Answer>;
  /**
   * Grains whose values templates print as placeholders, and the form of the placeholders. Default:
   * none.
   */
  readonly late?: LateRules | undefined;
  /** Data that was passed to an orchestration by a caller who does not have all rights. */
  readonly foreign?: UntrustedInput | undefined;
}

/**
 * Untrusted data. If a template prints a text from this data, the text becomes part of a value, and
 * is never read as YAML syntax.
 */
export interface UntrustedInput {
  readonly words: WireMap;
  /** Secret part of the placeholders in the rendered text; see event-text.ts. */
  readonly secret: string;
}

/** A reactor file to render. */
export interface ReactionTask extends TemplateTask {
  readonly kind: 'reaction';
  readonly tag: string;
  readonly data: WireMap;
  /** Secret part of the placeholders in the rendered text; see event-text.ts. */
  readonly secret: string;
}

/** A template to render, for a pillar, an orchestration or a reaction. */
export type RenderTask = PillarTask | ReactionTask;

/** A text to parse as data. */
export interface ReadTask {
  readonly kind: 'read';
  readonly format: 'yaml' | 'json';
  readonly text: string;
  /** Name of the text in error messages. */
  readonly name: string;
  /**
   * Beginnings of the placeholders for grain values in the text. Default: the text has no
   * placeholders.
   */
  readonly marks?: TextMarks | undefined;
}

/** Rendered text of a template. */
export interface Rendered {
  readonly text: string;
  /** Texts that placeholders in `text` replace, by the index in the placeholder. */
  readonly marked: readonly string[];
  /** Path of the grain value that each placeholder stands for, by number of the placeholder. */
  readonly late: readonly LatePath[];
}

/** Dependencies of a rendering, except files. They are recorded even if the rendering fails. */
export interface Notes {
  readonly grains: GrainReads;
  /**
   * Whether a repeated rendering may give another result. True if this rendering used the time or
   * random values, or timed out.
   */
  isVolatile: boolean;
}

export function makeNotes(): Notes {
  return { grains: new GrainReads(), isVolatile: false };
}

/** Files read so far that a template includes or imports. A missing file is `undefined`. */
export type KnownFiles = ReadonlyMap<string, SourceFile | undefined>;

/** A call of a function that the main thread must execute. */
export interface Question {
  /** Id of the call within one rendering. */
  readonly mark: string;
  readonly fun: string;
  readonly args: readonly PlainData[];
  readonly kwargs: Readonly<Record<string, PlainData>>;
}

/** Result or error of a {@link Question}. */
export type Answer = { readonly value: PlainData } | { readonly error: string };

/**
 * Interruption of a rendering that calls a function whose answer is not known yet. When the answer
 * is known, the rendering starts again.
 */
export class NotAnswered extends Interruption {
  static {
    NotAnswered.prototype.name = NotAnswered.name;
  }

  readonly question: Question;

  constructor(question: Question) {
    super(`the rendering pauses until the master has called ${question.fun}`);
    this.question = question;
  }
}

/**
 * Interruption of a rendering at a file that has not been read. When the file has been read, the
 * rendering starts again.
 */
export class NotRead extends Interruption {
  static {
    NotRead.prototype.name = NotRead.name;
  }

  readonly path: string;

  constructor(path: string) {
    super(`the rendering pauses until the master has read ${path}`);
    this.path = path;
  }
}

/**
 * Parses a text as data. Can run on any thread.
 * @throws TemplateError ERR_YAML, ERR_TEMPLATE_LIMIT
 */
export function readData({ format, text, name, marks }: ReadTask): PlainData {
  return format === 'json'
    ? parseJsonData(text, name, maxValues)
    : parseYaml(text, { name, marks, maxNodes: maxValues });
}
