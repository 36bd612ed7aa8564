/**
 * Extensions for a master that is a site of a centre, or the centre of sites. Their code is loaded
 * only if the option `site` or `sites` is set.
 */

import { ConfigError, type MasterConfig } from '#config';
import type { SiteProgram } from '#edge';
import type { MasterExtension } from '#master';

/** Names of the extensions, by the option that enables each. */
const names = { site: 'site', sites: 'site-centre' } as const;

/**
 * Returns the extensions. They contribute nothing if `site` and `sites` are not set.
 * @param program - changes the configuration of the running master
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
 * Checks that a master which is a site or a centre has the extensions of the edge. Only `serve`
 * adds them. Without them, a site would start as a master of its own that never connects to its
 * centre.
 * @throws ConfigError ERR_OPTION_CONFLICT
 */
export function requireEdge(config: MasterConfig, extensions: readonly MasterExtension[]): void {
  for (const option of ['site', 'sites'] as const) {
    const isThere = extensions.some(({ name }) => name === names[option]);
    if (config[option] === null || isThere) continue;
    const origin = { file: 'options', line: 0, key: `saltbridge:${option}` };
    const problem =
      'createMaster and joinMaster run neither a site nor a centre; remove the option, or start the master with serve or saltbridge master';
    throw new ConfigError('ERR_OPTION_CONFLICT', origin, problem);
  }
}
