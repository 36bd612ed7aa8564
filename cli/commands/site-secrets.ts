/** `saltbridge site secrets`: gives sites their secrets. */

import type { Command } from 'commander';
import type { SiteSecretsState } from '#edge';
import type { CommandContext } from '../context.ts';
import { configOption, jsonOption, logLevelOption } from '../options.ts';
import { escapeName, printJson, printLine } from '../terminal.ts';

/** Adds the subcommand. */
export function addSecrets(site: Command, context: CommandContext): void {
  site
    .command('secrets')
    .description(
      'notify sites that their secrets have changed; sites that are away read them later',
    )
    .argument('[name]', 'name of the site; default: all sites of this centre')
    .addOption(configOption())
    .addOption(jsonOption())
    .addOption(logLevelOption())
    .action(
      async (
        name: string | undefined,
        { configDir, json }: { readonly configDir: string; readonly json?: boolean },
      ) => {
        const client = await context.openExtension(configDir, 'site');
        const states = await client.call<readonly SiteSecretsState[]>('secrets', {
          ...(name === undefined ? {} : { name }),
        });
        if (json) return printJson(context.stdout, states);
        for (const { site: each, state } of states) {
          await printLine(context.stdout, escapeName(`${each} ${state}`));
        }
      },
    );
}
