/**
 * `saltbridge site secrets`: sends sites the pillar values that their releases must not contain.
 */

import type { Command } from 'commander';
import type { SiteSecretsState } from '#edge';
import type { CommandContext } from '../context.ts';
import { exitCodes } from '../errors.ts';
import { type CommonOptions, withCommonOptions } from '../options.ts';
import { escapeName, printJson, printLine } from '../terminal.ts';

/** Adds `secrets` to `saltbridge site`. */
export function addSecrets(site: Command, context: CommandContext): void {
  const secrets = site
    .command('secrets')
    .description(
      'notify sites that their secrets have changed; disconnected sites read the secrets later',
    )
    .argument('[name]', 'name of the site; default: all sites of this centre');
  withCommonOptions(secrets).action(
    async (name: string | undefined, { configDir, json }: CommonOptions) => {
      const client = await context.openExtension(configDir, 'site');
      const states = await client.call<readonly SiteSecretsState[]>('secrets', {
        ...(name === undefined ? {} : { name }),
      });
      if (states.some(({ state }) => state === 'invalid')) {
        context.setExitCode(exitCodes.failure);
      }
      if (json) return printJson(context.stdout, states);
      for (const { site: each, state, reason } of states) {
        const why = reason === undefined ? '' : `: ${reason}`;
        await printLine(context.stdout, escapeName(`${each} ${state}${why}`));
      }
    },
  );
}
