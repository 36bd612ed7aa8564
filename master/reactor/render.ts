/** Renders a file for the reactor, with the event as values. */
import { randomBytes } from 'node:crypto';
import {
  type PlainData,
  parseYaml,
  renderJinja,
  type TemplateLimits,
} from '../../template/index.ts';
import { MasterError } from '../errors.ts';
import { isEmpty } from '../pillar/empty.ts';
import { GrainReads, TracedGrains } from '../pillar/grains.ts';
import { parseJson } from '../pillar/json.ts';
import { pipeOf } from '../pillar/renderers.ts';
import { saltFunctions } from '../pillar/salt-functions.ts';
import type { SourceFile } from '../pillar/sources.ts';
import type { ReactionEvent } from '../reactions/planner.ts';
import { EventText } from './event-text.ts';
import type { ReactorFiles } from './files.ts';

/** What the operator decided. */
export interface ReactorRules {
  /** `id`. */
  readonly masterId: string;
  /** `renderer`. */
  readonly renderer: string;
  readonly trimBlocks: boolean;
  readonly lstripBlocks: boolean;
  readonly limits: Partial<TemplateLimits>;
  readonly imported: ReactorFiles['imported'];
}

/** A template asked for a file that was not read yet. */
class NotRead extends Error {
  readonly path: string;

  constructor(path: string) {
    super('a file is to be read first');
    this.name = new.target.name;
    this.path = path;
  }
}

const maxImports = 100;

/** The data of a file, with marks where text of the event is to be, and what they stand for. */
export interface Rendered {
  readonly data: PlainData;
  readonly text: EventText;
}

/** @throws TemplateError, MasterError ERR_RENDERER, ERR_PILLAR_FILE */
export async function renderReaction(
  file: SourceFile,
  { tag, body }: Pick<ReactionEvent, 'tag' | 'body'>,
  rules: ReactorRules,
): Promise<Rendered> {
  const { isTemplate, format } = pipeOf(file.text, rules.renderer);
  const imported: Imported = new Map();
  const text = new EventText(randomBytes(12).toString('hex'), {
    event: [tag, body],
    files: () => [file, ...imported.values()].map((one) => one?.text ?? ''),
  });
  const event = { tag, data: body };
  const rendered = isTemplate
    ? await renderWithImports(file, imported, rules, () => {
        return render(file, { imported, event, text, rules });
      })
    : file.text;
  const [line = ''] = rendered.split('\n', 1);
  const source = line.startsWith('#!') ? rendered.slice(line.length) : rendered;
  if (source.trim() === '') return { data: new Map(), text };
  const data =
    format === 'json' ? parseJson(source, file.path) : parseYaml(source, { name: file.path });
  return { data: isEmpty(data) ? new Map() : data, text };
}

/** By name; `undefined`: there is none. */
type Imported = Map<string, SourceFile | undefined>;

/** Begins again for each file that is to be read first. */
async function renderWithImports(
  { path }: SourceFile,
  imported: Imported,
  rules: ReactorRules,
  tryToRender: () => string,
): Promise<string> {
  for (;;) {
    try {
      return tryToRender();
    } catch (error) {
      if (!(error instanceof NotRead)) throw error;
      if (imported.size >= maxImports) {
        const problem = `${path} imports more than ${maxImports} files`;
        throw new MasterError('ERR_PILLAR_FILE', problem);
      }
      imported.set(error.path, await rules.imported(error.path));
    }
  }
}

interface Material {
  readonly imported: Imported;
  readonly event: Readonly<Record<string, unknown>>;
  readonly text: EventText;
  readonly rules: ReactorRules;
}

function render(file: SourceFile, { imported, event, text, rules }: Material): string {
  const { masterId, trimBlocks, lstripBlocks, limits } = rules;
  // Those of the master: reactions are no minion's.
  const own = { id: masterId };
  const opts = { ...own, file_client: 'local' };
  const setting = { pillar: new Map(), raisesOnMissing: false, opts };
  return renderJinja(file.template(), {
    name: file.path,
    trimBlocks,
    lstripBlocks,
    limits,
    loader: {
      load: (name) => {
        if (!imported.has(name)) throw new NotRead(name);
        return imported.get(name)?.template();
      },
    },
    functions: saltFunctions({ grains: new TracedGrains(own, new GrainReads()), setting }),
    print: (value) => text.print(value),
    context: {
      ...event,
      grains: own,
      opts,
      pillar: {},
      saltenv: '',
      sls: '',
    },
  });
}
