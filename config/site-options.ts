/**
 * Options under `saltbridge: site:` and `saltbridge: sites:`. A site is a master that works without
 * its centre; the centre is the master that publishes bundles for sites and receives their logs.
 */

import type { Static } from 'typebox';
import {
  absolutePath,
  bytes,
  custom,
  flag,
  integer,
  list,
  mapOf,
  mebibyte,
  optional,
  section,
  textList,
  textWhere,
} from './schema.ts';

/**
 * Pattern for the name of a site: 1 to 63 lower-case letters, digits and hyphens, as in a label of
 * a host name.
 */
export const siteName = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** Form of the address of a centre. Without TLS, the address must be on the loopback interface. */
export const centreUrl = /^(https:\/\/|http:\/\/(127\.0\.0\.1|\[::1\]|localhost)(:|\/|$))[^\s]*$/;

const centreAddress = textWhere(
  (value) => centreUrl.test(value),
  'an https:// address, or http:// on the loopback interface',
  { description: "Address of the centre's HTTP API." },
);

export const siteOptions = section(
  {
    name: textWhere(
      (value) => siteName.test(value),
      'a name of 1 to 63 lower-case letters, digits and "-"',
      { description: 'Name of this site, as in its ticket.' },
    ),
    centre: centreAddress,
    addresses: list(centreAddress, {
      default: [],
      maxItems: 16,
      description:
        'Further addresses of the centre, for example of the other members of its cluster. If the site cannot connect to an address, it tries the next one.',
    }),
    ca: optional(
      absolutePath({
        description: 'CA of the certificate of the centre, PEM. Default: the CAs of the system.',
      }),
    ),
    behindProxy: flag({
      default: false,
      description:
        'Whether a proxy ends the TLS connection before the centre. The link is then not bound to the TLS connection.',
    }),
    validOfflineSeconds: optional(
      integer(60, 31_536_000, {
        fileName: 'valid_offline',
        unit: 'seconds',
        description:
          'Time without the centre after which the site starts no more approved plans and orders. It can only shorten the time that the release states. Default: the time of the release, or 86400.',
      }),
    ),
    logBytes: bytes(mebibyte, 2 ** 40, {
      default: 1024 * mebibyte,
      description: 'Maximum size of the entries that wait for the centre.',
    }),
    uploadBytesPerSecond: bytes(0, 1_000_000_000, {
      default: 0,
      description:
        'Maximum rate of returns and facts on the link, in bytes per second. 0: no limit.',
    }),
    events: textList({
      default: [],
      description: 'Globs of the tags of events that the site sends to the centre.',
    }),
    alarms: textList({
      default: [],
      description: 'Globs of the tags of events that are sent before all other entries.',
    }),
  },
  { expected: 'a map with name, centre and the other options in docs/edge.md' },
);

/**
 * Schema of a ring: a group of sites that install a release together. The schema accepts a
 * percentage of all sites, or a list of site names.
 */
const ringMembers = custom<number | readonly string[]>(
  {
    expected: 'a percentage from 1 to 100, or a list of names of sites',
    accept: (value) => {
      if (typeof value === 'number') {
        return Number.isInteger(value) && value >= 1 && value <= 100 ? value : undefined;
      }
      const isList =
        Array.isArray(value) &&
        value.every((name) => typeof name === 'string' && siteName.test(name));
      return isList ? value : undefined;
    },
  },
  { type: ['integer', 'array'] },
);

export const sitesOptions = section(
  {
    source: optional(
      absolutePath({
        description:
          'Configuration directory of the sites, as `/etc/salt`. A release packs its options, and the files, pillar and catalog that they name.',
      }),
    ),
    secrets: optional(
      absolutePath({
        description:
          'Directory with the secrets of sites: `<name>.yml` contains pillar for the minions of one site. Each site gets only its own secrets.',
      }),
    ),
    rings: mapOf(ringMembers, {
      default: { first: 1, early: 10, all: 100 },
      expected: 'a map of names to a percentage or a list of sites',
      description:
        'Rings of sites, in the order of a release. A ring is a percentage of all sites, or a list.',
    }),
    stopAtFailures: integer(1, 1_000_000, {
      default: 1,
      description: 'Number of sites that fail to install a release, after which the release stops.',
    }),
    requireVersion: optional(
      textWhere((value) => /^\d+\.\d+\.\d+$/.test(value), 'a version such as 0.1.0', {
        description: 'Lowest version of saltbridge that installs a release.',
      }),
    ),
    validOfflineSeconds: integer(60, 31_536_000, {
      default: 86_400,
      fileName: 'valid_offline',
      unit: 'seconds',
      description:
        'Time without this centre after which a site starts no more approved plans and orders. Each release contains this time.',
    }),
    parallelSites: integer(1, 100_000, {
      default: 32,
      description: 'Number of sites that send their log or fetch a release at a time.',
    }),
    factAheadSeconds: integer(1, 86_400, {
      default: 300,
      unit: 'seconds',
      description: 'How far the clock of a site may be ahead. Facts with later times are refused.',
    }),
  },
  { expected: 'a map with any of the options in docs/edge.md' },
);

/** Options of this master as a site of a centre; see docs/edge.md. */
export type SiteOptions = Static<typeof siteOptions>;

/** The sites of this centre; see docs/edge.md. */
export type SitesOptions = Static<typeof sitesOptions>;
