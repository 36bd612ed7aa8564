import { Argument, type Command } from 'commander';
import type { MasterApi } from '../../master/index.ts';
import { configOption } from '../common-options.ts';
import { bashCompletion, zshCompletion } from '../completion/bash.ts';
import { fishCompletion } from '../completion/fish.ts';
import { type CompletionCommand, describeCommand } from '../completion/tree.ts';
import type { CommandContext } from '../context.ts';
import { printLine } from '../print.ts';

const shells: Readonly<Record<'bash' | 'zsh' | 'fish', (program: CompletionCommand) => string>> = {
  bash: bashCompletion,
  zsh: zshCompletion,
  fish: fishCompletion,
};

/** How many of the latest jobs are offered. */
const jobCount = 20;

/** What the scripts ask for while somebody types. */
const lists: Readonly<
  Record<'minions' | 'keys' | 'jids', (api: MasterApi) => Promise<readonly string[]>>
> = {
  minions: async (api) =>
    (await api.keys.list()).flatMap(({ id, state }) => (state === 'accepted' ? [id] : [])),
  keys: async (api) => (await api.keys.list()).map(({ id }) => id),
  jids: async (api) => (await api.jobs.list({ limit: jobCount })).map(({ jid }) => jid),
};

/** Anybody may offer a key under an id: what a shell could take for more than text is left out. */
const plainText = /^[\w.:@-]+$/;

/** `saltbridge completion`. */
export function addCompletionCommand(program: Command, context: CommandContext): void {
  const completion = program
    .command('completion')
    .description('print a script that completes commands in a shell');
  for (const [shell, write] of Object.entries(shells)) {
    completion
      .command(shell)
      .description(`for ${shell}`)
      .action(() => printLine(context.stdout, write(describeCommand(program)).trimEnd()));
  }
  completion
    .command('list', { hidden: true })
    .addArgument(new Argument('<what>').choices(Object.keys(lists)))
    .addOption(configOption())
    .action(async (what: keyof typeof lists, { configDir }: { readonly configDir: string }) => {
      const found = await lists[what](await context.openApi(configDir));
      for (const text of new Set(found)) {
        if (plainText.test(text) && !text.startsWith('-')) await printLine(context.stdout, text);
      }
    });
}
