/** Renders one file to data [salt/renderers/{jinja,yaml,json}.py]. */

import { hash } from 'node:crypto';
import { MasterError } from '#master';
import { type PlainData, TemplateError, type TextMarks } from '#template';
import type { AskedFunctions } from './asked-functions.ts';
import { EventText } from './event-text.ts';
import { fileFunctions, readSaltFile } from './file-functions.ts';
import { takesMore, text, textOr } from './function-arguments.ts';
import { type LateRules, numberMarks, textMarks } from './late-grains.ts';
import { isEmpty, type PillarMap } from './pillar-data.ts';
import type { PillarSetting } from './pillar-sources.ts';
import { Reads } from './reads.ts';
import { pipeOf, type RenderPipe } from './render-pipe.ts';
import type { Answer, PillarTask, Question, Rendered } from './render-task.ts';
import { isTransient } from './renderer.ts';
import { type SourceFile, toSourceFile } from './source-file.ts';

/** Environment, name and variables with which a file is rendered. */
export interface RenderedAs {
  readonly saltenv: string;
  /** Name of the SLS, for example `web.common`. Empty for a top file. */
  readonly sls: string;
  /** Additional variables: the `defaults` of an include. */
  readonly defaults: PillarMap;
}

/** Settings for the rendering of files. */
export type SlsRendering = Pick<
  PillarSetting,
  | 'id'
  | 'grains'
  | 'opts'
  | 'pillar'
  | 'foreign'
  | 'late'
  | 'files'
  | 'asked'
  | 'mergeLists'
  | 'raisesOnMissing'
  | 'nodegroups'
  | 'masterOptions'
  | 'renderer'
  | 'trimBlocks'
  | 'lstripBlocks'
  | 'limits'
  | 'rendering'
  | 'data'
  | 'now'
>;

/** Maximum depth of files that render each other with `slsutil.renderer`. */
const maxDepth = 20;

/** Renders the files of one pillar or one orchestration. */
export class SlsRenderer {
  readonly #setting: SlsRendering;
  readonly #reads: Reads;
  readonly #depth: number;

  /** @param depth - number of nested `slsutil.renderer` calls around this renderer */
  constructor(setting: SlsRendering, reads: Reads, depth = 0) {
    this.#setting = setting;
    this.#reads = reads;
    this.#depth = depth;
  }

  /**
   * Renders a file to data. An empty file gives an empty map.
   * @throws TemplateError, MasterError ERR_RENDERER, ERR_PILLAR_FILE, ERR_RENDER_GIVEN_UP
   */
  async render(file: SourceFile, as: RenderedAs): Promise<PlainData> {
    if (file.text.trim() === '') return new Map();
    const pipe = pipeOf(file.text, this.#setting.renderer);
    try {
      const data = pipe.isTemplate
        ? ((await this.#renderLate(file, as, pipe)) ??
          (await this.#readRendered(await this.#renderTemplate(file, as), file.path, pipe)))
        : await this.#read(file.text, file.path, pipe);
      return isEmpty(data) ? new Map() : data;
    } catch (error) {
      if (isTransient(error)) this.#reads.isVolatile = true;
      throw error;
    }
  }

  /**
   * Renders a template to text, without parsing the result as data.
   * @throws the same errors as `render`
   */
  async renderText(file: SourceFile, as: RenderedAs): Promise<PlainData> {
    const { text, marked } = await this.#renderTemplate(file, as);
    return this.#restore(text, marked);
  }

  /**
   * Renders an SLS with placeholders for the values of late grains (see late-grains.ts). Returns
   * `undefined` if the caller must render the file with the real values. Top files, and files that
   * `slsutil.renderer` renders, always need the real values, because the master uses their data at
   * once.
   */
  async #renderLate(
    file: SourceFile,
    as: RenderedAs,
    pipe: RenderPipe,
  ): Promise<PlainData | undefined> {
    const { late, mergeLists } = this.#setting;
    if (late === undefined || as.sls === '' || this.#depth > 0) return undefined;
    const { rules, paths } = late;
    const before = this.#reads.grains.marks;
    try {
      const rendered = await this.#renderTemplate(file, as, rules);
      if (rendered.late.length === 0) return await this.#readRendered(rendered, file.path, pipe);
      const marks = textMarks(rules.secret);
      const data = await this.#read(rendered.text, file.path, pipe, marks);
      return numberMarks(data, rendered, { secret: rules.secret, mergeLists }, paths);
    } catch (error) {
      if (this.#reads.grains.marks > before && mayFollowFromMarks(error)) return undefined;
      throw error;
    }
  }

  /**
   * Parses a rendered text as data. Then replaces each placeholder in the data by the text that it
   * stands for.
   */
  async #readRendered(
    { text, marked }: Rendered,
    name: string,
    pipe: RenderPipe,
  ): Promise<PlainData> {
    const data = await this.#read(text, name, pipe);
    return this.#restore(data, marked);
  }

  #restore(data: PlainData, marked: Rendered['marked']): PlainData {
    const { foreign } = this.#setting;
    return foreign === undefined ? data : new EventText(foreign.secret, marked).restoreAll(data);
  }

  async #renderTemplate(file: SourceFile, as: RenderedAs, late?: LateRules): Promise<Rendered> {
    const { id, grains, opts, pillar, raisesOnMissing, nodegroups, ...setting } = this.#setting;
    const { mergeLists, masterOptions } = setting;
    const functions = this.#askedFunctions(as);
    const answers = new Map<string, Answer>();
    const { trimBlocks, lstripBlocks, limits, now, rendering, foreign } = setting;
    // List the properties one by one, so that no other properties are sent to the worker thread.
    const task: PillarTask = {
      kind: 'pillar',
      ...as,
      ...{ id, grains, opts, pillar, raisesOnMissing, mergeLists, nodegroups, masterOptions },
      ...{ asked: Object.keys(functions), answers },
      ...{ trimBlocks, lstripBlocks, limits },
      now: now(),
      foreign,
      late,
    };
    const answer = async (question: Question): Promise<void> => {
      this.#reads.isVolatile = true;
      answers.set(question.mark, await answerOf(question, functions));
    };
    const imports = { ...this.#reads.imports(as.saltenv), answer };
    return rendering.render(file, task, imports, this.#reads, id);
  }

  #askedFunctions(as: RenderedAs): AskedFunctions {
    const { files, asked } = this.#setting;
    if (files === undefined) return asked;
    return {
      ...fileFunctions(files, as.saltenv),
      'slsutil.renderer': (args, kwargs) => this.#renderOther(args, kwargs, as),
      ...asked,
    };
  }

  /**
   * Implements `slsutil.renderer` for a file of `file_roots` or a text [salt/modules/slsutil.py].
   */
  #renderOther(...[args, kwargs, as]: [...Parameters<AskedFunctions[string]>, RenderedAs]) {
    const names = ['path', 'string', 'default_renderer', 'saltenv'];
    return takesMore(names, async (given, more): Promise<PlainData> => {
      if (this.#depth >= maxDepth) {
        throw new MasterError(
          'ERR_PILLAR_FILE',
          `calls of slsutil.renderer are nested more than ${maxDepth} deep`,
        );
      }
      const { files, trimBlocks, lstripBlocks } = this.#setting;
      const saltenv = textOr(given.saltenv, 'base');
      const source =
        typeof given.string === 'string'
          ? textSource(given.string, { trimBlocks, lstripBlocks })
          : files && (await readSaltFile(files, text(given.path, 'path'), saltenv));
      if (files === undefined || source === undefined) {
        throw new TypeError(`the file ${given.path} does not exist in the file roots`);
      }
      const renderer = textOr(given.default_renderer, 'jinja|yaml');
      const reads = new Reads(files);
      const inner = new SlsRenderer({ ...this.#setting, renderer }, reads, this.#depth + 1);
      const inside = { ...as, saltenv, defaults: new Map(Object.entries(more)) };
      const isText = renderer === 'jinja' && !source.text.startsWith('#!');
      return isText ? inner.renderText(source, inside) : inner.render(source, inside);
    })(args, kwargs);
  }

  async #read(
    text: string,
    name: string,
    { format }: RenderPipe,
    marks?: TextMarks,
  ): Promise<PlainData> {
    const { data, id } = this.#setting;
    if (format === 'yaml') return data.read({ kind: 'read', format, text, name, marks }, id);
    const [line = ''] = text.split('\n', 1);
    const json = line.startsWith('#!') ? text.slice(line.length + 1) : text;
    return json.trim() === ''
      ? new Map()
      : data.read({ kind: 'read', format, text: json, name }, id);
  }
}

/**
 * Whether an error may come from the placeholders that were rendered in place of values. If so, a
 * rendering with the real values may succeed. A placeholder can break the YAML, exceed a limit, or
 * be used before it is replaced.
 */
function mayFollowFromMarks(error: unknown): boolean {
  if (!(error instanceof TemplateError)) return false;
  const { code, kind } = error;
  return code === 'ERR_YAML' || code === 'ERR_TEMPLATE_LIMIT' || kind === 'LateValueError';
}

function textSource(text: string, whitespace: Parameters<typeof toSourceFile>[1]): SourceFile {
  const digest = hash('sha256', text);
  return toSourceFile({ path: '<string>', digest, text }, whitespace);
}

async function answerOf(
  { fun, args, kwargs }: Question,
  functions: AskedFunctions,
): Promise<Answer> {
  try {
    const call = functions[fun];
    if (call === undefined)
      throw new TypeError(`the function ${fun} is not available in this template`);
    return { value: await call(args, kwargs) };
  } catch (error) {
    const isReported =
      error instanceof TypeError || error instanceof MasterError || error instanceof TemplateError;
    if (isReported) return { error: error.message };
    throw error;
  }
}

/** Finds the file of an SLS: `web.common` is `web/common.sls` or `web/common/init.sls`. */
export async function findSls(
  reads: Reads,
  sls: string,
  saltenv: string,
): Promise<SourceFile | undefined> {
  const place = sls.replaceAll('.', '/');
  return (
    (await reads.read(`${place}.sls`, saltenv)) ?? (await reads.read(`${place}/init.sls`, saltenv))
  );
}
