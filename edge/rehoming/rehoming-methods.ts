/** RPC methods about the change of sites to another centre. Each method requires full rights. */

import Type from 'typebox';
import { extensionMethod, type RpcTable } from '#master';
import type { CentreRehoming } from './centre-rehoming.ts';
import { ExportedSiteSchema, maxImportedSites } from './site-list.ts';
import { maxStatementLength } from './statement.ts';

const strict = { additionalProperties: false };
const none = Type.Object({}, strict);

/** Creates the RPC methods. Their names begin with `rehome.`. */
export function rehomingMethods(rehoming: CentreRehoming): RpcTable {
  return {
    rehome: {
      offer: extensionMethod({
        parameters: Type.Object(
          {
            addresses: Type.Array(Type.String({ maxLength: 512 }), { minItems: 1, maxItems: 8 }),
            ca: Type.Optional(Type.String({ maxLength: 8192 })),
            behindProxy: Type.Boolean(),
          },
          strict,
        ),
        call: (_api, request) => rehoming.describe(request),
      }),
      export: extensionMethod({ parameters: none, call: () => rehoming.export() }),
      import: extensionMethod({
        parameters: Type.Object(
          {
            centre: Type.String({ minLength: 1, maxLength: 128 }),
            sites: Type.Array(ExportedSiteSchema, { maxItems: maxImportedSites }),
          },
          strict,
        ),
        call: (_api, { centre, sites }) => rehoming.import(centre, sites),
        audit: {
          action: 'site.import',
          done: ({ centre }, results) => {
            const imported = results.filter(({ result }) => result === 'imported');
            return { what: `${imported.length} sites of ${centre}` };
          },
          failed: ({ centre }) => ({ what: `sites of ${centre}` }),
        },
      }),
      publish: extensionMethod({
        parameters: Type.Object(
          { statement: Type.String({ maxLength: maxStatementLength }) },
          strict,
        ),
        call: (_api, { statement }) => rehoming.publish(statement),
        audit: {
          action: 'site.statement',
          done: (_params, { sites, to }) => ({ what: `${sites.join(' ')} to ${to}` }),
        },
      }),
      statements: extensionMethod({ parameters: none, call: async () => rehoming.list() }),
    },
  };
}
