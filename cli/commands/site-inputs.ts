/**
 * `saltbridge site inputs`: the grains on which the pillars of sites depend, and the number of
 * compiled pillars.
 */

import type { Command } from 'commander';
import type { InputsOfSites } from '#edge';
import type { CommandContext } from '../context.ts';
import { type CommonOptions, withCommonOptions } from '../options.ts';
import { escapeName, printJson, printLine } from '../terminal.ts';
import { formatInputs } from './pillar.ts';

/** Adds `inputs` to `saltbridge site`. */
export function addInputs(site: Command, context: CommandContext): void {
  const inputs = site
    .command('inputs')
    .description('count the compiled pillars of sites, and list the grains that they depend on')
    .argument('[name]', 'name of the site; default: all sites of this centre');
  withCommonOptions(inputs).action(
    async (name: string | undefined, { configDir, json }: CommonOptions) => {
      const client = await context.openExtension(configDir, 'site');
      const found = await client.call<InputsOfSites>('inputs', {
        ...(name === undefined ? {} : { name }),
      });
      if (json) return printJson(context.stdout, found);
      await printLine(context.stdout, formatSites(found));
    },
  );
}

function formatSites(found: InputsOfSites): string {
  const lines = found.sites.map(({ site, shared, own, at }) => {
    const counts = `${shared} shared pillars, ${own} of one minion`;
    return escapeName(`  ${site}: ${counts}, as of ${new Date(at).toISOString()}`);
  });
  const unknown = found.unknown.map((site) => escapeName(`  ${site}: not reported yet`));
  return [formatInputs(found), 'Sites:', ...lines, ...unknown].join('\n');
}
