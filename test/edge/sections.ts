/** Sections `site` and `sites` of a configuration. */

import type { createMasterServer } from '#server';

type ServeOptions = Parameters<typeof createMasterServer>[0];

export type SiteSection = NonNullable<ServeOptions['site']>;
type SitesSection = NonNullable<ServeOptions['sites']>;

/** Complete section `site` of a configuration, with the defaults for what is left out. */
export function siteSection(
  given: Pick<SiteSection, 'centre' | 'name'> & Partial<SiteSection>,
): SiteSection {
  return {
    addresses: [],
    behindProxy: false,
    logBytes: 2 ** 30,
    uploadBytesPerSecond: 0,
    events: [],
    alarms: [],
    ...given,
  };
}

/** Complete section `sites` of a configuration, with the defaults for what is left out. */
export function sitesSection(given: Partial<SitesSection> = {}): SitesSection {
  return {
    rings: { all: 100 },
    stopAtFailures: 1,
    parallelSites: 32,
    validOfflineSeconds: 86_400,
    factAheadSeconds: 300,
    ...given,
  };
}

/** Rules of a site: the operator of the centre may run `test.*`, and nothing else. */
export const testsOfCentre = {
  rules: [
    {
      name: 'the centre may test',
      effect: 'allow',
      subject: { user: '*', eauth: 'centre' },
      action: 'publish',
      resource: { fun: 'test.*' },
    },
  ],
} as const;
