/** Rendering of one file [salt/renderers/{jinja,yaml,json}.py]. */

import type { PlainData } from '#template';
import { EventText } from './event-text.ts';
import { isEmpty, type PillarMap } from './pillar-data.ts';
import type { PillarSetting } from './pillar-sources.ts';
import type { Reads } from './reads.ts';
import { pipeOf, type RenderPipe } from './render-pipe.ts';
import type { PillarTask, Rendered } from './render-task.ts';
import { isTransient } from './renderer.ts';
import type { SourceFile } from './source-file.ts';

/** What a file is rendered as. */
export interface RenderedAs {
  readonly saltenv: string;
  /** Its name, `web.common`; empty for a top file. */
  readonly sls: string;
  /** More variables: `defaults` of an include. */
  readonly defaults: PillarMap;
}

/** What files are rendered with. */
export type SlsRendering = Pick<
  PillarSetting,
  | 'id'
  | 'grains'
  | 'opts'
  | 'pillar'
  | 'foreign'
  | 'raisesOnMissing'
  | 'nodegroups'
  | 'renderer'
  | 'trimBlocks'
  | 'lstripBlocks'
  | 'limits'
  | 'rendering'
  | 'data'
  | 'now'
>;

/** Renders the files of one pillar, or of one orchestration. */
export class SlsRenderer {
  readonly #setting: SlsRendering;
  readonly #reads: Reads;

  constructor(setting: SlsRendering, reads: Reads) {
    this.#setting = setting;
    this.#reads = reads;
  }

  /**
   * The data of a file; an empty map for one with nothing in it.
   * @throws TemplateError, MasterError ERR_RENDERER, ERR_PILLAR_FILE, ERR_RENDER_GIVEN_UP
   */
  async render(file: SourceFile, as: RenderedAs): Promise<PlainData> {
    if (file.text.trim() === '') return new Map();
    const pipe = pipeOf(file.text, this.#setting.renderer);
    try {
      const data = pipe.isTemplate
        ? await this.#readRendered(await this.#renderTemplate(file, as), file.path, pipe)
        : await this.#read(file.text, file.path, pipe);
      return isEmpty(data) ? new Map() : data;
    } catch (error) {
      if (isTransient(error)) this.#reads.isVolatile = true;
      throw error;
    }
  }

  /** What was marked is put in its place once its text has been read. */
  async #readRendered(
    { text, marked }: Rendered,
    name: string,
    pipe: RenderPipe,
  ): Promise<PlainData> {
    const data = await this.#read(text, name, pipe);
    const { foreign } = this.#setting;
    return foreign === undefined ? data : new EventText(foreign.secret, marked).restoreAll(data);
  }

  async #renderTemplate(file: SourceFile, as: RenderedAs): Promise<Rendered> {
    const { id, grains, opts, pillar, raisesOnMissing, nodegroups, ...setting } = this.#setting;
    const { trimBlocks, lstripBlocks, limits, now, rendering, foreign } = setting;
    // Member by member: nothing else is copied to another thread.
    const task: PillarTask = {
      kind: 'pillar',
      ...as,
      ...{ id, grains, opts, pillar, raisesOnMissing, nodegroups },
      ...{ trimBlocks, lstripBlocks, limits },
      now: now(),
      foreign,
    };
    const imports = this.#reads.imports(as.saltenv);
    return rendering.render(file, task, imports, this.#reads);
  }

  async #read(text: string, name: string, { format }: RenderPipe): Promise<PlainData> {
    const { data } = this.#setting;
    if (format === 'yaml') return data.read({ kind: 'read', format, text, name });
    const [line = ''] = text.split('\n', 1);
    const json = line.startsWith('#!') ? text.slice(line.length + 1) : text;
    return json.trim() === '' ? new Map() : data.read({ kind: 'read', format, text: json, name });
  }
}

/** The file of an SLS: `web.common` is `web/common.sls` or `web/common/init.sls`. */
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
