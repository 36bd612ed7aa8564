/** List of sites with their keys, which one centre exports and another imports. */

import Type, { type Static } from 'typebox';
import { compileSchema } from '#runtime';
import { EdgeError } from '../errors.ts';

const strict = { additionalProperties: false };
const PublicKey = Type.String({ pattern: '^[A-Za-z0-9_-]{43}$' });

/** Maximum number of sites in one call of the import. */
export const maxImportedSites = 500;

/** Schema of an exported site. */
export const ExportedSiteSchema = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 63 }),
    /** Public key of the site, in base64url. `nextKey` is the key that will replace it. */
    key: PublicKey,
    nextKey: Type.Optional(PublicKey),
  },
  strict,
);

/** Site as one centre exports it for another centre. */
export type ExportedSite = Readonly<Static<typeof ExportedSiteSchema>>;

const SiteListSchema = Type.Object(
  {
    type: Type.Literal('saltbridge sites 1'),
    /** Id of the centre that exported the sites. */
    centre: Type.String({ minLength: 1, maxLength: 128 }),
    exportedAt: Type.Integer({ minimum: 0 }),
    sites: Type.Array(ExportedSiteSchema, { maxItems: 1_000_000 }),
  },
  strict,
);
const siteListCheck = compileSchema(SiteListSchema);

/** Exported sites of a centre. */
export type SiteList = Readonly<Static<typeof SiteListSchema>>;

/** Result of the import of one site. */
export interface ImportedSite {
  readonly name: string;
  readonly result: 'imported' | 'unchanged' | 'refused';
  /** Reason of a refusal. */
  readonly reason?: string;
}

/**
 * Parses a list of sites that a centre has exported.
 * @throws EdgeError ERR_REHOME_STATEMENT if it is malformed
 */
export function parseSiteList(text: string): SiteList {
  try {
    return siteListCheck.Parse(JSON.parse(text));
  } catch (cause) {
    const problem = 'the file is not the output of `saltbridge site rehome export`';
    throw new EdgeError('ERR_REHOME_STATEMENT', problem, { cause });
  }
}
