/** Renders reactor files, with the event as values. */

import { randomBytes } from 'node:crypto';
import type { ReactionEvent } from '#master';
import type { PlainData, TemplateLimits } from '#template';
import { EventText } from '../render/event-text.ts';
import { isEmpty } from '../render/pillar-data.ts';
import { pipeOf } from '../render/render-pipe.ts';
import type { Rendered } from '../render/render-task.ts';
import type { Imports, Renderer } from '../render/renderer.ts';
import type { SourceFile } from '../render/source-file.ts';
import type { ReactorFiles } from './reactor-files.ts';

/** What the operator decided. */
export interface ReactorRules {
  /** `id`. */
  readonly masterId: string;
  /** `renderer`. */
  readonly renderer: string;
  readonly trimBlocks: boolean;
  readonly lstripBlocks: boolean;
  readonly limits: Partial<TemplateLimits>;
}

/** With what files are rendered. */
interface ReactorRendering {
  readonly rendering: Renderer;
  readonly imported: ReactorFiles['imported'];
}

/** The data of a file, with marks where text of the event is to be, and what they stand for. */
interface ReactionData {
  readonly data: PlainData;
  readonly text: EventText;
}

/** @throws TemplateError; MasterError ERR_RENDERER, ERR_PILLAR_FILE, ERR_RENDER_GIVEN_UP */
export async function renderReaction(
  file: SourceFile,
  event: Pick<ReactionEvent, 'tag' | 'body'>,
  rules: ReactorRules,
  by: ReactorRendering,
): Promise<ReactionData> {
  const { isTemplate, format } = pipeOf(file.text, rules.renderer);
  const secret = randomBytes(12).toString('hex');
  const rendered = isTemplate
    ? await render(file, event, { rules, by, secret })
    : { text: file.text, marked: [] };
  const text = new EventText(secret, rendered.marked);
  const [line = ''] = rendered.text.split('\n', 1);
  const source = line.startsWith('#!') ? rendered.text.slice(line.length) : rendered.text;
  if (source.trim() === '') return { data: new Map(), text };
  const task = { kind: 'read', format, text: source, name: file.path } as const;
  const data = await by.rendering.read(task);
  return { data: isEmpty(data) ? new Map() : data, text };
}

interface Material {
  readonly rules: ReactorRules;
  readonly by: ReactorRendering;
  readonly secret: string;
}

/** Grains and options are those of the master: reactions are no minion's. */
function render(
  file: SourceFile,
  { tag, body }: Pick<ReactionEvent, 'tag' | 'body'>,
  { rules, by, secret }: Material,
): Promise<Rendered> {
  const { trimBlocks, lstripBlocks, limits } = rules;
  const grains = { id: rules.masterId };
  return by.rendering.render(
    file,
    {
      kind: 'reaction',
      tag,
      data: body,
      secret,
      grains,
      opts: { ...grains, file_client: 'local' },
      ...{ trimBlocks, lstripBlocks, limits },
    },
    importsOf(by),
  );
}

function importsOf({ imported }: ReactorRendering): Imports {
  const known = new Map<string, SourceFile | undefined>();
  return { known, read: async (path) => known.set(path, await imported(path)) };
}
