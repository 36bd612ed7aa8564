/** Renders reactor files. Texts of the event are inserted as plain values only. */

import { randomBytes } from 'node:crypto';
import type { ReactionEvent } from '#master';
import type { WireMap } from '#minion-protocol';
import type { PlainData, TemplateLimits } from '#template';
import { EventText } from '../render/event-text.ts';
import { isEmpty } from '../render/pillar-data.ts';
import { pipeOf } from '../render/render-pipe.ts';
import type { Rendered } from '../render/render-task.ts';
import { type Imports, noMinion, type Renderer } from '../render/renderer.ts';
import type { SourceFile } from '../render/source-file.ts';
import type { ReactorFiles } from './reactor-files.ts';

/** Rendering rules set by the operator. */
export interface ReactorRules {
  /** Id of the master, as its option `id` states it. */
  readonly masterId: string;
  /** Options of the master that `config.get` returns, by their names in Salt. */
  readonly masterOptions: WireMap;
  /** Default renderer: the option `renderer`. */
  readonly renderer: string;
  readonly trimBlocks: boolean;
  readonly lstripBlocks: boolean;
  readonly limits: Partial<TemplateLimits>;
}

/** Renderer of reactor files, and the function that reads imported files. */
interface ReactorRendering {
  readonly rendering: Renderer;
  readonly imported: ReactorFiles['imported'];
}

/**
 * Data of a rendered reactor file. It contains placeholders for texts from the event. `text`
 * replaces the placeholders with these texts.
 */
interface ReactionData {
  readonly data: PlainData;
  readonly text: EventText;
}

/**
 * Renders a reactor file.
 * @throws TemplateError if the template or its output is invalid
 * @throws MasterError ERR_RENDERER for an unsupported renderer; ERR_PILLAR_FILE if an imported file
 * cannot be read; ERR_RENDER_GIVEN_UP if the rendering thread fails; ERR_MASTER_STOPPED
 */
export async function renderReaction(
  file: SourceFile,
  event: Pick<ReactionEvent, 'tag' | 'body' | 'sender' | 'owner'>,
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
  const data = await by.rendering.read(task, event.owner ?? event.sender ?? noMinion);
  return { data: isEmpty(data) ? new Map() : data, text };
}

interface Material {
  readonly rules: ReactorRules;
  readonly by: ReactorRendering;
  readonly secret: string;
}

/**
 * Renders a template with the grains and options of the master, because a reaction does not belong
 * to a minion.
 */
function render(
  file: SourceFile,
  { tag, body, sender, owner = sender }: Pick<ReactionEvent, 'tag' | 'body' | 'sender' | 'owner'>,
  { rules, by, secret }: Material,
): Promise<Rendered> {
  const { trimBlocks, lstripBlocks, limits, masterOptions } = rules;
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
      ...{ trimBlocks, lstripBlocks, limits, masterOptions },
    },
    importsOf(by),
    undefined,
    owner,
  );
}

function importsOf({ imported }: ReactorRendering): Imports {
  const known = new Map<string, SourceFile | undefined>();
  return { known, read: async (path) => known.set(path, await imported(path)) };
}
