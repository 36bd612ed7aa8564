/** What Salt's own Python clients on the master's host work with. */

export { createLocalClient, type LocalClientStatus } from './local-client.ts';
