/** One master for several processes of a host. */
export { sharedMasterErrors } from './errors.ts';
export { joinMaster } from './join-master.ts';
