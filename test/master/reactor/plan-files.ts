/** Plans the calls of reactor files for an event. */
import type { ExecutionContext } from 'ava';
import type { ReactionEvent } from '#master';
import { createMemoryFiles } from '#master';
import { FileServer } from '#salt/file-trees/file-server.ts';
import type { Plan } from '#salt/reactor/reaction-planner.ts';
import type { Takes } from '#salt/reactor/reactor-call.ts';
import { openReactorFiles } from '#salt/reactor/reactor-files.ts';
import { createReactorPlanner } from '#salt/reactor/reactor-planner.ts';
import { Renderer } from '#salt/render/renderer.ts';
import { type FileTree, layOut } from '../../helpers/file-tree.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

/** Directory of the files, and a function that plans one of them. */
export interface PlannedFiles {
  readonly directory: string;
  readonly plan: (reference: string, event: ReactionEvent) => Promise<Plan>;
}

/** Content of the file server. */
const served = {
  'reactor/served.sls':
    "{% from 'reactor/tgt.jinja' import tgt %}\nping:\n  local.test.ping: [{tgt: {{ tgt }}}]\n",
  'reactor/tgt.jinja': "{% set tgt = 'web1' %}\n",
};

/** Returns the file server's content. As in the recorded cases, it has the same files. */
function imports(tree: FileTree): Record<string, string> {
  return Object.fromEntries(
    Object.entries(tree).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}

export async function planFiles(
  t: ExecutionContext,
  tree: FileTree,
  { takes = () => true, steps = 100_000 }: { readonly takes?: Takes; readonly steps?: number } = {},
): Promise<PlannedFiles> {
  const directory = temporaryDirectory(t);
  layOut(directory, tree);
  const whitespace = { trimBlocks: false, lstripBlocks: false };
  const files = await openReactorFiles({
    fileServer: new FileServer([createMemoryFiles({ base: { ...served, ...imports(tree) } })]),
    hidden: [`${directory}/hidden`],
    ...whitespace,
  });
  const rendering = new Renderer();
  t.teardown(() => rendering.close());
  const rules = {
    masterId: 'master1',
    masterOptions: { id: 'master1' },
    renderer: 'jinja|yaml',
    limits: { steps },
    ...whitespace,
  };
  return {
    directory,
    plan: async (reference, event) =>
      createReactorPlanner(reference, { files, rules, rendering, takes, now: () => 0 })(event),
  };
}
