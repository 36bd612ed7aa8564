/** Service for Salt's own Python clients on the master's host. */

export { createLocalClient, type LocalClientStatus } from './local-client.ts';
