/**
 * Extensions for a master that is a site of a centre, or the centre of sites. Their code is loaded
 * only if the option `site` or `sites` is set.
 */

import type { SiteProgram } from '#edge';
import type { MasterExtension } from '#master';

/**
 * Returns the extensions. They contribute nothing if `site` and `sites` are not set.
 * @param program - changes the configuration of the running master
 */
export function edgeExtensions(program: SiteProgram): readonly MasterExtension[] {
  const after = ['bridge-signals', 'bridge-commands'];
  return [
    {
      name: 'site',
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
      name: 'site-centre',
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
