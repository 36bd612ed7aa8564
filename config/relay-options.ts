/** `saltbridge: relay:`, the ports for relays of networks without a route to the master. */

import { addressList } from './http-api-options.ts';
import {
  explainSection,
  integer,
  type OptionKind,
  readSection,
  type SectionTable,
  text,
} from './option-kinds.ts';

/** Ports whose connections begin with a header of the PROXY protocol, version 2. */
export interface RelayOptions {
  /** `interface`: address to bind. Default: that of the transport. */
  readonly interface?: string;
  /** `publish_port`, for what relays take at the master's `publish_port`. */
  readonly publishPort: number;
  /** `ret_port`, for what relays take at the master's `ret_port`. */
  readonly retPort: number;
  /** `from`: addresses and networks of the relays. */
  readonly from: readonly string[];
}

const port = integer(0, 65_535);

const relayTable: SectionTable<RelayOptions> = {
  interface: { name: 'interface', kind: text },
  publishPort: { name: 'publish_port', kind: port },
  retPort: { name: 'ret_port', kind: port },
  from: { name: 'from', kind: addressList },
};

/** A map. */
export const relayOptions: OptionKind<RelayOptions> = {
  expected: 'a map with publish_port, ret_port, from, and interface if it is another one',
  isPath: false,
  parse: (value) => {
    const section = readSection(relayTable, value);
    if (section === undefined) return undefined;
    const { publishPort, retPort, from } = section;
    if (publishPort === undefined || retPort === undefined || from === undefined) return undefined;
    return { ...section, publishPort, retPort, from };
  },
  explain: (setting) => explainSection(relayTable, setting, ['publishPort', 'retPort', 'from']),
};
