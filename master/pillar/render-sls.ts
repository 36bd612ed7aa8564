/** One file of pillar to data, as Salt's renderers make it [salt/renderers/{jinja,yaml,json}.py]. */
import { type PlainData, parseYaml, renderJinja } from '../../template/index.ts';
import { MasterError } from '../errors.ts';
import { isEmpty } from './empty.ts';
import { GrainsDict, TracedGrains } from './grains.ts';
import { parseJson } from './json.ts';
import { matchFunctions } from './match-functions.ts';
import type { PillarMap } from './merge.ts';
import { NotRead, type Reads } from './reads.ts';
import { pipeOf } from './renderers.ts';
import { saltFunctions } from './salt-functions.ts';
import type { PillarSetting } from './setting.ts';
import { slsNames } from './sls-names.ts';
import type { SourceFile } from './sources.ts';

/** What a file is rendered as. */
export interface RenderedAs {
  readonly saltenv: string;
  /** Its name, `web.common`; empty for a top file. */
  readonly sls: string;
  /** More variables: `defaults` of an include. */
  readonly defaults: PillarMap;
}

/** Files that one file may include and import. */
const maxImports = 500;

/** Renders the files of one pillar. */
export class SlsRenderer {
  readonly #setting: PillarSetting;
  readonly #reads: Reads;

  constructor(setting: PillarSetting, reads: Reads) {
    this.#setting = setting;
    this.#reads = reads;
  }

  /**
   * The data of a file; an empty map for one with nothing in it.
   * @throws TemplateError, MasterError ERR_RENDERER, ERR_PILLAR_FILE
   */
  async render(file: SourceFile, as: RenderedAs): Promise<PlainData> {
    if (file.text.trim() === '') return new Map();
    const { isTemplate, format } = pipeOf(file.text, this.#setting.renderer);
    const text = isTemplate ? await this.#renderTemplate(file, as) : file.text;
    const data = format === 'json' ? readJson(text, file.path) : this.#readYaml(text, file.path);
    return isEmpty(data) ? new Map() : data;
  }

  async #renderTemplate(file: SourceFile, as: RenderedAs): Promise<string> {
    for (let imports = 0; imports <= maxImports; imports += 1) {
      const text = await this.#tryToRender(file, as);
      if (text !== undefined) return text;
    }
    throw new MasterError('ERR_PILLAR_FILE', `${file.path} imports more than ${maxImports} files`);
  }

  /** `undefined` when it has to begin again, because another file was to be read first. */
  async #tryToRender(file: SourceFile, as: RenderedAs): Promise<string | undefined> {
    try {
      return this.#renderOnce(file, as);
    } catch (error) {
      if (!(error instanceof NotRead)) throw error;
      await this.#reads.read(error.path, as.saltenv);
      return undefined;
    }
  }

  #renderOnce(file: SourceFile, { saltenv, sls, defaults }: RenderedAs): string {
    const setting = this.#setting;
    const reads = this.#reads;
    const grains = new TracedGrains(setting.grains, reads.grains);
    return renderJinja(file.template(), {
      name: file.path,
      trimBlocks: setting.trimBlocks,
      lstripBlocks: setting.lstripBlocks,
      limits: setting.limits,
      loader: reads.loader(saltenv),
      functions: {
        ...saltFunctions({ grains, setting }),
        ...matchFunctions({ ...setting, grains }),
      },
      context: {
        ...Object.fromEntries(defaults),
        grains: new GrainsDict(grains),
        opts: setting.opts,
        pillar: setting.pillar,
        saltenv,
        sls,
        ...(sls === '' ? {} : slsNames(file.path)),
      },
      now: () => {
        reads.isVolatile = true;
        return new Date(setting.now());
      },
      random: () => {
        reads.isVolatile = true;
        return setting.random();
      },
    });
  }

  #readYaml(text: string, path: string): PlainData {
    return this.#setting.yaml.read(text, path);
  }
}

function readJson(text: string, path: string): PlainData {
  const [line = ''] = text.split('\n', 1);
  const rest = line.startsWith('#!') ? text.slice(line.length + 1) : text;
  return rest.trim() === '' ? new Map() : parseJson(rest, path);
}

/** YAML that was read before: the same text gives the same data, for however many minions. */
export class ParsedYaml {
  readonly #kept = new Map<string, PlainData>();
  readonly #maxCharacters: number;
  #characters = 0;

  /** @param maxCharacters of all texts that are kept. Default 8 Mi */
  constructor(maxCharacters: number = 8 * 1024 * 1024) {
    this.#maxCharacters = maxCharacters;
  }

  /** @throws TemplateError ERR_YAML, ERR_TEMPLATE_LIMIT */
  read(text: string, name: string): PlainData {
    const mark = `${name}\0${text}`;
    const known = this.#kept.get(mark);
    if (known !== undefined) return known;
    const data = parseYaml(text, { name });
    this.#keep(mark, data);
    return data;
  }

  #keep(mark: string, data: PlainData): void {
    if (mark.length > this.#maxCharacters) return;
    this.#kept.set(mark, data);
    this.#characters += mark.length;
    for (const oldest of this.#kept.keys()) {
      if (this.#characters <= this.#maxCharacters) return;
      this.#kept.delete(oldest);
      this.#characters -= oldest.length;
    }
  }
}
