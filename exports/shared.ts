/**
 * `saltbridge/shared`: one master for several processes of a host.
 *
 * @packageDocumentation
 */

export { joinMaster } from '#server';
