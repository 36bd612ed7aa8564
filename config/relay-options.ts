/**
 * Options under `saltbridge: relay:`. They configure ports for relays, which serve networks without
 * a route to the master.
 */

import type { Static } from 'typebox';
import { addressList } from './http-api-options.ts';
import { integer, optional, section, text } from './schema.ts';

export const relayOptions = section(
  {
    interface: optional(
      text({ description: 'Address to bind. Default: the address of the transport.' }),
    ),
    publishPort: integer(0, 65_535, {
      description: 'Port for connections that relays accept at `publish_port`.',
    }),
    retPort: integer(0, 65_535, {
      description: 'Port for connections that relays accept at `ret_port`.',
    }),
    from: addressList({ description: 'Addresses and networks of the relays.' }),
  },
  { expected: 'a map with publish_port, ret_port, from, and optionally interface' },
);

/** Ports that require a PROXY protocol header, version 2, at the beginning of each connection. */
export type RelayOptions = Static<typeof relayOptions>;
