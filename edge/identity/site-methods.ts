/** RPC methods of the centre about its sites: `site.ticket`, `site.list` and others. */

import { createHash } from 'node:crypto';
import { hostname } from 'node:os';
import Type from 'typebox';
import { type ExtensionHost, extensionMethod, extensionStream, type RpcTable } from '#master';
import type { CentreFacts } from '../facts/centre-facts.ts';
import type { CentreInputs } from '../facts/centre-inputs.ts';
import type { SiteInfo, SiteRegistry } from './site-registry.ts';

const strict = { additionalProperties: false };
const Name = Type.String({ minLength: 1, maxLength: 63 });
const Selected = Type.Object({ name: Name }, strict);

/** Default validity of a ticket, in seconds. */
const ticketSeconds = 86_400;

/** Site with a summary of its minions. */
export interface SiteDetails extends SiteInfo {
  readonly minions: Awaited<ReturnType<CentreFacts['summaryOf']>>;
}

export interface SiteMethodOptions {
  readonly host: Pick<ExtensionHost, 'config' | 'reloadable'>;
  readonly sites: SiteRegistry;
  readonly facts: CentreFacts;
  readonly inputs: CentreInputs;
  readonly trustRoot: () => Promise<Uint8Array | undefined>;
  /** Deletes the data of a site that was revoked. Does not reject. */
  readonly release: (name: string) => Promise<void>;
}

/** Returns the RPC methods. A caller needs full rights for each of them. */
export function siteMethods({
  host,
  sites,
  facts,
  inputs,
  trustRoot,
  release,
}: SiteMethodOptions): RpcTable {
  const audited = ({ name }: { readonly name: string }) => ({ what: name });
  return {
    ticket: extensionMethod({
      parameters: Type.Object(
        {
          name: Name,
          centre: Type.Optional(Type.String({ minLength: 1, maxLength: 1024 })),
          lifetimeSeconds: Type.Optional(Type.Integer({ minimum: 1, maximum: 31_536_000 })),
        },
        strict,
      ),
      call: async (_api, { name, centre = ownAddress(host), lifetimeSeconds = ticketSeconds }) => {
        const root = await trustRoot();
        const digest = root && createHash('sha256').update(root).digest('hex');
        return sites.issue({ name, centre, lifetimeSeconds, root: digest });
      },
      audit: { action: 'site.ticket', done: audited, failed: audited },
    }),
    list: extensionMethod({
      parameters: Type.Object({}, strict),
      call: () => sites.list(),
    }),
    show: extensionMethod({
      parameters: Selected,
      call: async (_api, { name }): Promise<SiteDetails> => ({
        ...(await sites.show(name)),
        minions: await facts.summaryOf(name),
      }),
    }),
    minions: extensionStream({
      parameters: Type.Object({ name: Type.Optional(Name) }, strict),
      call: (_api, { name }) => facts.list(name),
    }),
    inputs: extensionMethod({
      parameters: Type.Object({ name: Type.Optional(Name) }, strict),
      call: async (_api, { name }) => {
        if (name !== undefined) await sites.show(name);
        return inputs.list(name);
      },
    }),
    revoke: extensionMethod({
      parameters: Selected,
      call: async (_api, { name }) => {
        await sites.revoke(name);
        await release(name);
        return sites.show(name);
      },
      audit: { action: 'site.revoke', done: audited, failed: audited },
    }),
  };
}

/**
 * Returns the URL of this centre's HTTP API: `https` with the host name of this machine, or
 * `http://localhost` if the API has no TLS.
 */
function ownAddress({ config }: SiteMethodOptions['host']): string {
  const api = config.api ?? config.restCherrypy;
  const isPlain = api === null || api.disableSsl;
  const port = api?.port ?? 443;
  return isPlain ? `http://localhost:${port}` : `https://${hostname()}:${port}`;
}
