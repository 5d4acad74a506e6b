# Read by cpack for each kind of package. An archive is unpacked anywhere, so it has no prefix of its own. It has the
# program alone, or with its module if cpack is called with -D CPACK_BEVATRON_WITH=cuda.
if(CPACK_GENERATOR STREQUAL "TGZ")
  set(CPACK_PACKAGING_INSTALL_PREFIX "/")
  if(CPACK_BEVATRON_WITH)
    string(REPLACE bevatron- bevatron-${CPACK_BEVATRON_WITH}- CPACK_PACKAGE_FILE_NAME ${CPACK_PACKAGE_FILE_NAME})
    set(CPACK_ARCHIVE_FILE_NAME ${CPACK_PACKAGE_FILE_NAME})
  else()
    string(REPLACE ";ALL;" ";program;" CPACK_INSTALL_CMAKE_PROJECTS "${CPACK_INSTALL_CMAKE_PROJECTS}")
  endif()
endif()
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/package_date.cmake)
