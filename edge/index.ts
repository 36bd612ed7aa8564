/** Sites that work without their centre, and their centre. See docs/architecture/edge.md. */

export { edgeErrors } from './errors.ts';
