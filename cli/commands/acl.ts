import type { Command } from 'commander';
import type { Denial } from '../../master/index.ts';
import { configOption, jsonOption, logLevelOption } from '../common-options.ts';
import type { CommandContext } from '../context.ts';
import { escapeName } from '../output/escape.ts';
import { printJson, printLine } from '../print.ts';

interface DenialsOptions {
  readonly configDir: string;
  readonly json?: boolean;
}

/** `saltbridge acl`. */
export function addAclCommand(program: Command, context: CommandContext): void {
  const acl = program.command('acl').description('what the policy decided');
  acl
    .command('denials')
    .description('list the latest signals that minions were not permitted to emit')
    .addOption(configOption())
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(async ({ configDir, json }: DenialsOptions) => {
      const api = await context.openApi(configDir);
      const denials = await api.events.denials();
      if (json) await printJson(context.stdout, denials);
      else if (denials.length === 0) await printLine(context.stderr, 'No signal was denied.');
      for (const denial of json ? [] : denials) {
        await printLine(context.stdout, formatDenial(denial));
      }
    });
}

function formatDenial({ minion, tag, rule, reason, count, lastAt }: Denial): string {
  const when = new Date(lastAt).toISOString();
  const times = count === 1 ? '' : ` (${count} times)`;
  return `${when} ${escapeName(minion)} ${escapeName(tag)}${times}: ${escapeName(rule)}: ${escapeName(reason)}`;
}
