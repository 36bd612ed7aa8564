/**
 * Extensions for masters that form a hierarchy: a central master (the centre, option `sites`) and
 * the sites that it manages (option `site`). Their code is loaded only if one of these options is
 * set.
 */

import { ConfigError, type MasterConfig } from '#config';
import type { SiteProgram } from '#edge';
import type { MasterExtension } from '#master';

/** Names of the extensions for sites and for central masters, by the option that enables each. */
const names = { site: 'site', sites: 'site-centre' } as const;

/**
 * Returns the extensions for sites and for central masters. They do nothing if neither `site` nor
 * `sites` is set.
 * @param program - functions that check and apply a new configuration of the running master
 */
export function edgeExtensions(program: SiteProgram): readonly MasterExtension[] {
  const after = ['bridge-signals', 'bridge-commands'];
  return [
    {
      name: names.site,
      namespace: 'edge',
      after,
      open: async (host) => {
        const { site } = host.config;
        if (site === null) return {};
        const { openSite } = await import('#edge');
        return openSite(host, site, program);
      },
    },
    {
      name: names.sites,
      namespace: 'site',
      after,
      open: async (host) => {
        const { sites } = host.config;
        if (sites === null) return {};
        const { openCentre } = await import('#edge');
        return openCentre(host, sites);
      },
    },
  ];
}

/**
 * Checks that a master with the option `site` or `sites` has the extension that the option needs.
 * Only `serve` adds these extensions. Without its extension, a site would start as an independent
 * master that never connects to its central master.
 * @throws ConfigError ERR_OPTION_CONFLICT
 */
export function requireEdge(config: MasterConfig, extensions: readonly MasterExtension[]): void {
  for (const option of ['site', 'sites'] as const) {
    const isThere = extensions.some(({ name }) => name === names[option]);
    if (config[option] === null || isThere) continue;
    const origin = { file: 'options', line: 0, key: `saltbridge:${option}` };
    const problem =
      'createMaster and joinMaster run neither a site nor a centre; remove the option, or start the master with `serve()` or `saltbridge master`';
    throw new ConfigError('ERR_OPTION_CONFLICT', origin, problem);
  }
}
